import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { request } from '../api/request.js';
import type { IClusterStatus, IHardwareChoices } from '../api/wire/index.js';
import {
  currentNotebook,
  hasPythonKernel,
  newNotebook,
  pythonKernel,
  runInCell
} from '../documents/pythonNotebook.js';
import { mayStart } from '../model/cluster.js';
import { cellOf, type IClusterRequest } from '../model/clusterRequest.js';
import type { ClusterModel } from '../model/clusterModel.js';
import { fileName } from '../text/runText.js';
import type { ClusterActions } from './clusterActions.js';
import { ClusterDialog } from './clusterDialog.js';
import { failureText } from './failureText.js';
import type { ServerActions } from './serverActions.js';

/** A kernel that has not started by then is none that the dialog can name. */
const KERNEL_MS = 10_000;

/** Where the cell goes that starts the cluster. */
type Target =
  | { kind: 'open'; panel: NonNullable<ReturnType<typeof currentNotebook>> }
  | { kind: 'new'; kernel: string };

/**
 * Start a cluster: chosen and priced in a dialog, then started by a cell of the notebook in front.
 *
 * Not by the server: the head of its engine runs beside a kernel, with that kernel's Python, and the
 * cell gives the user the variable, and the notebook a line that starts the same cluster again.
 */
export class ClusterStart {
  constructor({ app, server, model, actions, trans }: ClusterStart.IOptions) {
    this._app = app;
    this._server = server;
    this._model = model;
    this._actions = actions;
    this._trans = trans;
  }

  /** True where this server may have a cluster, has none, and its owner asks. */
  get available(): boolean {
    const { status } = this._model;
    return this._server.available && status !== null && mayStart(status);
  }

  /** Ask which cluster, and start it. */
  async run(): Promise<void> {
    const { status } = this._model;
    if (status === null || !this.available || this._isOpen) {
      return;
    }
    this._isOpen = true;
    try {
      await this._run(status);
    } catch (reason) {
      this._fail(failureText(reason, this._trans));
    } finally {
      this._isOpen = false;
    }
  }

  private async _run(status: IClusterStatus): Promise<void> {
    const { serverSettings } = this._app.serviceManager;
    const hardware = (await request(serverSettings, 'hardware')) as IHardwareChoices;
    const target = await this._target();
    if (target === null) {
      this._fail(this._trans.__('This server has no Python kernel, which the cluster needs.'));
      return;
    }
    const wanted = await this._ask(status, hardware, target);
    if (wanted) {
      await this._start(wanted, target);
      this._model.refresh({ always: true });
    }
  }

  /** Null where there is no kernel for it. */
  private async _target(): Promise<Target | null> {
    const panel = currentNotebook(this._app.shell);
    if (panel) {
      const { ready } = panel.sessionContext; // its kernel may be starting
      await Promise.race([ready, new Promise(resolve => setTimeout(resolve, KERNEL_MS))]);
    }
    if (panel && hasPythonKernel(this._app, panel)) {
      return { kind: 'open', panel };
    }
    const kernel = pythonKernel(this._app);
    return kernel === null ? null : { kind: 'new', kernel };
  }

  private async _ask(
    status: IClusterStatus,
    { own, choices }: IHardwareChoices,
    target: Target
  ): Promise<IClusterRequest | null> {
    const isOpen = target.kind === 'open';
    const kernel = isOpen ? target.panel.sessionContext.session?.kernel : null;
    const dialog = new ClusterDialog({
      status,
      own: own ?? null,
      choices,
      notebook: isOpen ? fileName(target.panel.context.path) : null,
      isBusy: kernel?.status === 'busy',
      price: ({ workers, profile }) => this._actions.price(workers, profile),
      trans: this._trans
    });
    const { button, value } = await dialog.launch();
    return button.accept ? value : null;
  }

  private async _start(wanted: IClusterRequest, target: Target): Promise<void> {
    const code = cellOf(wanted);
    const panel =
      target.kind === 'open' ? target.panel : await newNotebook(this._app, target.kernel);
    if (panel === null || panel.isDisposed) {
      // Notebook opens it in another tab of the browser.
      const what = this._trans.__('To start the cluster, run this in the notebook: %1', code);
      Notification.info(what, { autoClose: false });
      return;
    }
    await runInCell(this._app, panel, code);
  }

  private _fail(why: string): void {
    const what = this._trans.__('No cluster can be started now. %1', why);
    Notification.error(what, { autoClose: false });
  }

  private readonly _app: JupyterFrontEnd;
  private readonly _server: ServerActions;
  private readonly _model: ClusterModel;
  private readonly _actions: ClusterActions;
  private readonly _trans: TranslationBundle;
  private _isOpen = false;
}

export namespace ClusterStart {
  export interface IOptions {
    app: JupyterFrontEnd;
    server: ServerActions;
    model: ClusterModel;
    actions: ClusterActions;
    trans: TranslationBundle;
  }
}
