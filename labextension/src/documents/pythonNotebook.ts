import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Kernel } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';

import type { ICellPlace } from '../model/interruptedCell.js';

/** What is used here of a shared cell. */
export interface ISharedCell {
  readonly cell_type: string;
  getId(): string;
  getSource(): string;
  setSource(source: string): void;
}

/** What is used here of a shared notebook. */
export interface ISharedNotebook {
  readonly cells: readonly ISharedCell[];
  insertCell(index: number, cell: { cell_type: 'code'; source: string }): unknown;
}

/** What is used here of a notebook's panel. */
export type INotebookPanel = Widget & {
  readonly content: {
    readonly model: { readonly sharedModel: ISharedNotebook } | null;
    activeCellIndex: number;
    deselectAll(): void;
    scrollToItem(index: number, align: 'smart'): Promise<void>;
  };
  readonly context: DocumentRegistry.Context;
  readonly sessionContext: {
    readonly ready: Promise<void>;
    readonly session: { readonly kernel: Kernel.IKernelConnection | null } | null;
  };
  readonly revealed: Promise<void>;
};

/** The notebook in front; null where something else is. */
export function currentNotebook(shell: JupyterFrontEnd.IShell): INotebookPanel | null {
  return asNotebook(shell.currentWidget);
}

/** Whether the kernel of this notebook runs Python. */
export function hasPythonKernel(app: JupyterFrontEnd, panel: INotebookPanel): boolean {
  const kernel = panel.sessionContext.session?.kernel;
  return kernel ? isPython(app, kernel.name) : false;
}

/** A kernel that runs Python, the default one if that does; null where there is none. */
export function pythonKernel(app: JupyterFrontEnd): string | null {
  const specs = app.serviceManager.kernelspecs.specs;
  const names = [specs?.default ?? '', ...Object.keys(specs?.kernelspecs ?? {})];
  return names.find(name => isPython(app, name)) ?? null;
}

/** A new notebook in front, with this kernel; null where it is opened in another browser tab. */
export async function newNotebook(
  app: JupyterFrontEnd,
  kernelName: string
): Promise<INotebookPanel | null> {
  const made: unknown = await app.commands.execute('notebook:create-new', { kernelName });
  return asNotebook(made as Widget | null);
}

/** Open the notebook with this cell active and in view; without it where it is not there. */
export async function openCell(app: JupyterFrontEnd, { path, cellId }: ICellPlace): Promise<void> {
  const panel = asNotebook((await app.commands.execute('docmanager:open', { path })) as Widget);
  if (!panel) {
    return;
  }
  await panel.context.ready;
  await panel.revealed;
  const { content } = panel;
  const cells = content.model?.sharedModel.cells ?? [];
  const index = cells.findIndex(cell => cell.getId() === cellId);
  if (index >= 0) {
    content.activeCellIndex = index;
    content.deselectAll();
    await content.scrollToItem(index, 'smart');
  }
}

/** Put this source into a cell below the active one, and run it. Returns when it has begun. */
export async function runInCell(
  app: JupyterFrontEnd,
  panel: INotebookPanel,
  source: string
): Promise<void> {
  await panel.context.ready;
  await panel.revealed;
  await panel.sessionContext.ready;
  const { content } = panel;
  if (!content.model) {
    return;
  }
  app.shell.activateById(panel.id);
  content.activeCellIndex = placeCell(content.model.sharedModel, content.activeCellIndex, source);
  content.deselectAll();
  // It ends when the cell has, which is not waited for.
  void app.commands.execute('notebook:run-cell');
}

/** In the active cell if that has no code, else in a new one below; answers its index. */
export function placeCell(notebook: ISharedNotebook, active: number, source: string): number {
  const cell = notebook.cells[active];
  if (cell?.cell_type === 'code' && cell.getSource().trim() === '') {
    cell.setSource(source);
    return active;
  }
  const index = Math.min(active + 1, notebook.cells.length);
  notebook.insertCell(index, { cell_type: 'code', source });
  return index;
}

function asNotebook(widget: Widget | null): INotebookPanel | null {
  const panel = widget as Partial<INotebookPanel> | null;
  const insert = panel?.content?.model?.sharedModel?.insertCell;
  return panel?.sessionContext && typeof insert === 'function' ? (panel as INotebookPanel) : null;
}

function isPython(app: JupyterFrontEnd, name: string): boolean {
  const spec = app.serviceManager.kernelspecs.specs?.kernelspecs[name];
  return spec?.language.toLowerCase() === 'python';
}
