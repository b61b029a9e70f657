import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import type { Widget } from '@lumino/widgets';

/** A document that cannot be saved must not keep the server on. */
const SAVE_TIMEOUT_MS = 10_000;

/** Of one document that changes while it is saved. */
const MAX_SAVES = 2;

const DOWNLOAD_MS = 60_000;

/** Of the paths that are reported, with this many characters each. */
const MAX_REPORTED = 10;
const MAX_PATH_CHARS = 200;

/**
 * Save every open document with changes that can be saved; never fails, and takes
 * `SAVE_TIMEOUT_MS` at most. Answers the paths of some that were not saved, as on a full disk.
 *
 * Not by `docmanager:save-all`: that also saves unchanged documents, and stops at the first one
 * that fails. One that opens a dialog, as on a conflict, delays no other.
 */
export async function saveAll(shell: JupyterFrontEnd.IShell): Promise<string[]> {
  const unsaved = new Map(unsavedDocuments(shell).map(context => [context.path, context]));
  const saves = [...unsaved].map(([path, context]) =>
    context.save().then(
      () => unsaved.delete(path),
      () => undefined // JupyterLab shows why
    )
  );
  let timer: number | undefined;
  const timeout = new Promise(resolve => {
    timer = window.setTimeout(resolve, SAVE_TIMEOUT_MS);
  });
  await Promise.race([Promise.all(saves), timeout]);
  window.clearTimeout(timer);
  return [...unsaved.keys()].slice(0, MAX_REPORTED).map(path => path.slice(-MAX_PATH_CHARS));
}

/** Every open document with changes that can be saved; the one in front comes first. */
export function unsavedDocuments(shell: JupyterFrontEnd.IShell): DocumentRegistry.Context[] {
  const found = new Set<DocumentRegistry.Context>();
  for (const widget of [shell.currentWidget, ...shell.widgets('main')]) {
    const { context } = (widget ?? {}) as Partial<Pick<IDocumentWidget, 'context'>>;
    if (context?.model.dirty && context.contentsModel?.writable) {
      found.add(context);
    }
  }
  return [...found];
}

/** Download what the page shows, which its file does not have. */
export function download({ model, localPath }: DocumentRegistry.Context): void {
  const isNotebook = localPath.endsWith('.ipynb');
  const content = isNotebook ? JSON.stringify(model.toJSON(), null, 1) : model.toString();
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content]));
  link.download = localPath.split('/').at(-1) ?? '';
  link.click();
  // Only when the browser has begun to read it.
  window.setTimeout(() => URL.revokeObjectURL(link.href), DOWNLOAD_MS);
}

/** Whether something that is open has unsaved changes: documents, and what JupyterLab marks so. */
export function hasUnsaved(shell: JupyterFrontEnd.IShell): boolean {
  const isMarked = ({ title }: Widget): boolean =>
    title.className.split(' ').includes('jp-mod-dirty');
  return unsavedDocuments(shell).length > 0 || [...shell.widgets('main')].some(isMarked);
}

/** The open document of this path; null where none is open, or it has not been loaded yet: until
 * then its model is empty, and its file is what there is. */
export function openDocument(
  shell: JupyterFrontEnd.IShell,
  path: string
): DocumentRegistry.Context | null {
  for (const widget of shell.widgets('main')) {
    const { context } = widget as Widget & Partial<Pick<IDocumentWidget, 'context'>>;
    if (context?.path === path) {
      return context.isReady ? context : null;
    }
  }
  return null;
}

/**
 * Save it if it has changes; answers whether the file now has what was shown when this began.
 *
 * What changes meanwhile is saved, too, such as the kernel that JupyterLab writes into a notebook
 * once it is connected; but the outputs of a running cell never end.
 */
export async function save(context: DocumentRegistry.Context): Promise<boolean> {
  for (let saves = 0; saves < MAX_SAVES && context.model.dirty; saves++) {
    if (!context.contentsModel?.writable) {
      return false;
    }
    try {
      await context.save();
    } catch {
      return false; // JupyterLab shows why.
    }
  }
  return true;
}
