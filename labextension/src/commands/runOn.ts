import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { Widget } from '@lumino/widgets';

import { hasHub, hubUrl } from '../api/hubPages.js';
import { request } from '../api/request.js';
import type { IHardwareChoices, IRunsAnswer } from '../api/wire/index.js';
import { type ICellContent, type IParameter, parametersOf } from '../model/runParameters.js';
import type { IRunBody } from '../model/runRequest.js';
import { fileName, submittedText } from '../text/runText.js';
import { openDocument, save } from './documents.js';
import { failureText } from './failureText.js';
import { RunDialog } from './runDialog.js';

/** How long the notification of a run stays; it is in the notification centre after that. */
const SHOWN_MS = 20_000;

/** Arguments of the command, as JSON schema. */
export const RUN_ON_ARGS = {
  type: 'object',
  properties: {
    path: { type: 'string', description: 'The file; without it that of the current tab.' },
    toolbar: { type: 'boolean', description: 'The notebook whose toolbar has the button.' },
    fileBrowser: { type: 'boolean', description: 'The file that the context menu was opened on.' }
  }
};

/** Run a notebook or script on a machine of its own: saved, asked for, submitted. */
export class RunOn {
  constructor({ app, trans }: RunOn.IOptions) {
    this._app = app;
    this._trans = trans;
  }

  /** The file that would be run; null where there is none. */
  path(args: ReadonlyPartialJSONObject): string | null {
    const path =
      typeof args.path === 'string'
        ? args.path
        : args.fileBrowser
          ? this._inFileBrowser()
          : this._current();
    return path !== null && /\.(ipynb|py)$/.test(path) ? path : null;
  }

  /** Save the file, ask how to run it, and submit it. */
  async run(args: ReadonlyPartialJSONObject): Promise<void> {
    const path = this.path(args);
    if (path === null || this._isOpen) {
      return;
    }
    this._isOpen = true;
    try {
      await this._run(path);
    } catch (reason) {
      const what = this._trans.__(
        '%1 cannot be run now. %2',
        fileName(path),
        failureText(reason, this._trans)
      );
      Notification.error(what, { autoClose: false });
    } finally {
      this._isOpen = false;
    }
  }

  /** True where a page shows what becomes of runs. */
  get hasPage(): boolean {
    return hasHub();
  }

  /** The hub's page of runs, beside this one. */
  openPage(): void {
    window.open(hubUrl('ec2', 'runs'), '_blank', 'noopener');
  }

  private async _run(path: string): Promise<void> {
    const { shell, serviceManager } = this._app;
    const trans = this._trans;
    const context = openDocument(shell, path);
    if (context && !(await save(context))) {
      const what = trans.__('%1 was not run: its changes could not be saved.', fileName(path));
      Notification.error(what, { autoClose: false });
      return;
    }
    const [hardware, parameters] = await Promise.all([
      request(serviceManager.serverSettings, 'hardware') as Promise<IHardwareChoices>,
      this._parameters(path, context)
    ]);
    const dialog = new RunDialog({
      path: fileName(path),
      hardware,
      parameters,
      submit: body => this._submit({ ...body, path: serviceManager.contents.localPath(path) }),
      trans
    });
    await dialog.launch();
  }

  private async _submit(body: IRunBody): Promise<string> {
    try {
      const answer = await request(this._app.serviceManager.serverSettings, 'runs', body);
      for (const run of (answer as IRunsAnswer).runs) {
        Notification.success(submittedText(run, this._trans), {
          autoClose: SHOWN_MS,
          actions: this._actions()
        });
      }
      return '';
    } catch (reason) {
      return failureText(reason, this._trans);
    }
  }

  private _actions(): Notification.IAction[] {
    return this.hasPage
      ? [{ label: this._trans.__('Show runs'), callback: () => this.openPage() }]
      : [];
  }

  /** Those of the cell tagged `parameters`; none for a script. */
  private async _parameters(
    path: string,
    context: DocumentRegistry.Context | null
  ): Promise<IParameter[]> {
    if (!path.endsWith('.ipynb')) {
      return [];
    }
    const notebook: unknown = context
      ? context.model.toJSON()
      : (await this._app.serviceManager.contents.get(path, { type: 'notebook', content: true }))
          .content;
    const { cells } = (notebook ?? {}) as { cells?: unknown };
    return Array.isArray(cells) ? parametersOf(cells as ICellContent[]) : [];
  }

  private _current(): string | null {
    const widget: (Widget & Partial<Pick<IDocumentWidget, 'context'>>) | null =
      this._app.shell.currentWidget;
    return widget?.context?.path ?? null;
  }

  /** Where its context menu was opened; the selected item then. */
  private _inFileBrowser(): string | null {
    const item = this._app.contextMenuHitTest(node =>
      node.classList.contains('jp-DirListing-item')
    );
    for (const area of ['left', 'main', 'right']) {
      for (const widget of this._app.shell.widgets(area)) {
        const browser = item && widget.node.contains(item) ? fileBrowserIn(widget) : null;
        const selected = browser ? [...browser.selectedItems()] : [];
        if (selected.length === 1) {
          return selected[0]?.path ?? null;
        }
      }
    }
    return null;
  }

  private readonly _app: JupyterFrontEnd;
  private readonly _trans: TranslationBundle;
  private _isOpen = false;
}

export namespace RunOn {
  export interface IOptions {
    app: JupyterFrontEnd;
    trans: TranslationBundle;
  }
}

/** What JupyterLab's file browser has of what is used here. */
interface IFileBrowser {
  selectedItems(): IterableIterator<Contents.IModel>;
}

/** In JupyterLab the widget itself, in Notebook one below it. */
function fileBrowserIn(widget: Widget): IFileBrowser | null {
  const browser = widget as Widget & Partial<IFileBrowser>;
  if (typeof browser.selectedItems === 'function') {
    return browser as IFileBrowser;
  }
  for (const child of widget.children()) {
    const found = fileBrowserIn(child);
    if (found) {
      return found;
    }
  }
  return null;
}
