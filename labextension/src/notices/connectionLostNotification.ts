import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { IConnectionStatus } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { hasHub, hubUrl } from '../api/hubPages.js';
import { download, hasUnsaved, unsavedDocuments } from '../commands/documents.js';
import type { HeldSaves } from '../documents/heldSaves.js';
import { connectionLostText, type IConnectionLostText } from '../text/connectionLostText.js';
import { downloadLabel } from '../text/unsavedText.js';
import { isGuest } from '../model/state.js';
import type { StatusModel } from '../model/statusModel.js';
import { isOnScreen } from './toast.js';

/**
 * Says that the server has gone, why, and how to start it again, for as long as that holds; and from
 * the last save before a stop on, what is not saved.
 *
 * No dialog: it would cover what is not saved. Meanwhile JupyterLab's own polling pauses, which
 * would only fill the console.
 */
export class ConnectionLostNotification implements IDisposable {
  constructor({ app, model, saves, connection, trans }: ConnectionLostNotification.IOptions) {
    this._app = app;
    this._model = model;
    this._saves = saves;
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
    const { view } = this._model;
    const unsaved = unsavedDocuments(this._app.shell);
    const paths = unsaved.map(({ localPath }) => localPath);
    const lost = connectionLostText(view, paths, this._saves.isHolding, this._trans);
    const isLost = lost !== null && view.phase === 'away';
    if (this._connection && this._isLost !== isLost) {
      this._connection.isConnected = !isLost;
    }
    this._isLost = isLost;
    this._isRefused &&= isLost;
    const isDirty = unsaved.length > 0;
    // A toast that was hidden comes back for changes that are not saved.
    if (
      lost?.kind !== this._shown?.kind ||
      lost?.level !== this._shown?.level ||
      (isDirty && !this._wasDirty)
    ) {
      this._withdraw();
    }
    this._wasDirty = isDirty;
    if (lost && !this._shown) {
      const options = { autoClose: false as const, actions: this._actions(lost, unsaved) };
      this._id = Notification.emit(lost.text, lost.level, options);
    } else if (lost && lost.text !== this._shown?.text && isOnScreen(this._id)) {
      Notification.update({
        id: this._id,
        message: lost.text,
        autoClose: false,
        actions: this._actions(lost, unsaved)
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

  private _actions(
    lost: IConnectionLostText,
    unsaved: readonly DocumentRegistry.Context[]
  ): Notification.IAction[] {
    const actions: Notification.IAction[] = [];
    if (lost.startable && hasHub()) {
      const label = lost.wakes
        ? this._trans.__('Wake session')
        : this._trans.__('Start server again');
      actions.push({ label, displayType: 'accent', callback: () => this._start() });
    }
    if (lost.kind === 'signed-out' && !this._isRefused) {
      const label = this._trans.__('Sign in again');
      actions.push({ label, displayType: 'accent', callback: event => this._signIn(event) });
    }
    if (unsaved.length > 0) {
      const paths = unsaved.map(({ localPath }) => localPath);
      actions.push({
        label: downloadLabel(paths, this._trans),
        callback: event => {
          event.preventDefault(); // They are still not saved: the toast stays.
          unsavedDocuments(this._app.shell).forEach(download); // More may be by now.
        }
      });
    }
    return actions;
  }

  /** On the hub's page, and back to here. */
  private _start(): void {
    const { pathname, search, hash } = window.location;
    const next = URLExt.objectToQueryString({ next: `${pathname}${search}${hash}` });
    this._open(`${spawnUrl()}${next}`);
  }

  /** As this page, which leads through the login. The login is the browser's: once another tab has
   * it, what is unsaved here is saved. */
  private _signIn(event: MouseEvent): void {
    event.preventDefault(); // Until the server answers: the toast stays.
    const { location } = window;
    this._open(location.href, () => location.reload()); // `assign` stays where there is a `#`.
    if (isGuest(this._model.view.status)) {
      this._isRefused = true; // Until the server answers: it may be shared no more.
      this._withdraw();
      this._update();
    }
  }

  /** Beside a page that has something to lose. */
  private _open(url: string, here = (): void => window.location.assign(url)): void {
    if (hasUnsaved(this._app.shell)) {
      window.open(url, '_blank', 'noopener');
    } else {
      here();
    }
  }

  private readonly _app: JupyterFrontEnd;
  private readonly _model: StatusModel;
  private readonly _saves: HeldSaves;
  private readonly _connection: IConnectionStatus | null;
  private readonly _trans: TranslationBundle;
  private _isDisposed = false;
  private _isLost = false;
  private _wasDirty = false;
  private _isRefused = false;
  private _shown: IConnectionLostText | null = null;
  private _id = '';
}

export namespace ConnectionLostNotification {
  export interface IOptions {
    app: JupyterFrontEnd;
    model: StatusModel;
    saves: HeldSaves;
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
