/** Documents with changes that are not saved, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

/** JupyterLab cuts a toast after 140 characters: the rest of it has to be read, too. */
const MAX_NAME_CHARS = 24;

/** `Unsaved changes in train.ipynb`, `Unsaved changes in 3 files`; without a full stop. */
export function unsavedTitle(paths: readonly string[], trans: TranslationBundle): string {
  return trans.__('Unsaved changes in %1', documentsName(paths, trans));
}

/** To a person who saves while nothing can be saved. */
export function heldText(paths: readonly string[], trans: TranslationBundle): string {
  const rest = trans.__('They are saved as soon as this server runs again. Keep this page open.');
  return `${unsavedTitle(paths, trans)}\n${rest}`;
}

/** That what was unsaved is saved now. */
export function savedText(paths: readonly string[], trans: TranslationBundle): string {
  return trans.__('Your changes in %1 are saved.', documentsName(paths, trans));
}

/** What the button says that downloads them from the page. */
export function downloadLabel(paths: readonly string[], trans: TranslationBundle): string {
  if (paths.length > 1) {
    return trans.__('Download these %1 files', paths.length);
  }
  return paths[0].endsWith('.ipynb')
    ? trans.__('Download this notebook')
    : trans.__('Download this file');
}

function documentsName(paths: readonly string[], trans: TranslationBundle): string {
  if (paths.length !== 1) {
    return trans._n('%1 file', '%1 files', paths.length, paths.length);
  }
  const name = paths[0].split('/').at(-1) ?? '';
  // The end of a name distinguishes it, such as `-copy-2.ipynb`.
  return name.length > MAX_NAME_CHARS
    ? `${name.slice(0, MAX_NAME_CHARS / 2)}…${name.slice(1 - MAX_NAME_CHARS / 2)}`
    : name;
}
