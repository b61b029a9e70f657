import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import type { Widget } from '@lumino/widgets';

/** A document that cannot be saved must not keep the server on. */
const SAVE_TIMEOUT_MS = 10_000;

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
  const unsaved = new Map<string, DocumentRegistry.Context>();
  for (const widget of shell.widgets('main')) {
    const { context } = widget as Widget & Partial<Pick<IDocumentWidget, 'context'>>;
    if (context?.model.dirty && context.contentsModel?.writable) {
      unsaved.set(context.path, context);
    }
  }
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

/** Whether an open document has unsaved changes, as JupyterLab marks its tab. */
export function hasUnsaved(shell: JupyterFrontEnd.IShell): boolean {
  return [...shell.widgets('main')].some(({ title }) =>
    title.className.split(' ').includes('jp-mod-dirty')
  );
}

/** The open document of this path; null where none is open. */
export function openDocument(
  shell: JupyterFrontEnd.IShell,
  path: string
): DocumentRegistry.Context | null {
  for (const widget of shell.widgets('main')) {
    const { context } = widget as Widget & Partial<Pick<IDocumentWidget, 'context'>>;
    if (context?.path === path) {
      return context;
    }
  }
  return null;
}

/** Save it if it has changes; answers whether the file is now what is shown. */
export async function save(context: DocumentRegistry.Context): Promise<boolean> {
  if (context.model.dirty && context.contentsModel?.writable) {
    // JupyterLab shows why it fails.
    await context.save().catch(() => undefined);
  }
  return !context.model.dirty;
}
