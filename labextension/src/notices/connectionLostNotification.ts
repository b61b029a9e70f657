import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import type { IConnectionStatus } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { hasHub, hubUrl } from '../api/hubPages.js';
import { hasUnsaved } from '../commands/documents.js';
import { connectionLostText, type IConnectionLostText } from '../text/connectionLostText.js';
import type { StatusModel } from '../model/statusModel.js';
import { isOnScreen } from './toast.js';

/**
 * Says that the server has gone, why, and how to start it again, for as long as that holds.
 *
 * No dialog: it would cover what is not saved. Meanwhile JupyterLab's own polling pauses, which
 * would only fill the console.
 */
export class ConnectionLostNotification implements IDisposable {
  constructor({ app, model, connection, trans }: ConnectionLostNotification.IOptions) {
    this._app = app;
    this._model = model;
    this._connection = connection;
    this._trans = trans;
    model.changed.connect(this._update, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    Signal.clearData(this);
    this._withdraw();
    if (this._connection && this._isLost) {
      this._connection.isConnected = true;
    }
  }

  private _update(): void {
    const lost = connectionLostText(this._model.view, hasUnsaved(this._app.shell), this._trans);
    if (this._connection && this._isLost !== (lost !== null)) {
      this._connection.isConnected = lost === null;
    }
    this._isLost = lost !== null;
    if (lost?.kind !== this._shown?.kind || lost?.level !== this._shown?.level) {
      this._withdraw();
    }
    if (lost && !this._shown) {
      const options = { autoClose: false as const, actions: this._actions(lost) };
      this._id = Notification.emit(lost.text, lost.level, options);
    } else if (lost && lost.text !== this._shown?.text && isOnScreen(this._id)) {
      Notification.update({
        id: this._id,
        message: lost.text,
        autoClose: false,
        actions: this._actions(lost)
      });
    }
    this._shown = lost;
  }

  private _withdraw(): void {
    if (this._shown) {
      Notification.dismiss(this._id);
      this._shown = null;
    }
  }

  private _actions(lost: IConnectionLostText): Notification.IAction[] {
    if (!lost.startable || !hasHub()) {
      return [];
    }
    const label = lost.wakes
      ? this._trans.__('Wake session')
      : this._trans.__('Start server again');
    return [{ label, displayType: 'accent', callback: () => this._start() }];
  }

  /** On the hub's page, and back to here; beside a page that has something to lose. */
  private _start(): void {
    const { pathname, search, hash } = window.location;
    const next = URLExt.objectToQueryString({ next: `${pathname}${search}${hash}` });
    const url = `${spawnUrl()}${next}`;
    if (hasUnsaved(this._app.shell)) {
      window.open(url, '_blank', 'noopener');
    } else {
      window.location.assign(url);
    }
  }

  private readonly _app: JupyterFrontEnd;
  private readonly _model: StatusModel;
  private readonly _connection: IConnectionStatus | null;
  private readonly _trans: TranslationBundle;
  private _isDisposed = false;
  private _isLost = false;
  private _shown: IConnectionLostText | null = null;
  private _id = '';
}

export namespace ConnectionLostNotification {
  export interface IOptions {
    app: JupyterFrontEnd;
    model: StatusModel;
    /** JupyterLab's own: its polling pauses while the server is away. */
    connection: IConnectionStatus | null;
    trans: TranslationBundle;
  }
}

/** Where the hub starts this server. */
function spawnUrl(): string {
  const names = [PageConfig.getOption('hubServerUser'), PageConfig.getOption('hubServerName')];
  return hubUrl('spawn', ...names.filter(Boolean));
}
