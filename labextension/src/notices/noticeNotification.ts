import { Notification } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';

import type { INotice } from '../api/wire/index.js';
import type { LastSave } from './lastSave.js';
import { isOnScreen } from './toast.js';

/** One notice as JupyterLab's notification; withdrawn when disposed. */
export class NoticeNotification implements IDisposable {
  constructor(
    public notice: INotice,
    /** For a notice of an end. */
    readonly lastSave: LastSave
  ) {}

  show(text: string, actions: Notification.IAction[]): void {
    this._id = Notification.emit(text, this.notice.level, { autoClose: false, actions });
    this._last = summary(text, actions);
  }

  /** Updating a dismissed one would bring its toast back. */
  refresh(message: string, actions: Notification.IAction[]): void {
    const now = summary(message, actions);
    if (this._id === null || now === this._last || !isOnScreen(this._id)) {
      return;
    }
    this._last = now;
    Notification.update({ id: this._id, message, autoClose: false, actions });
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this.lastSave.dispose();
    if (this._id !== null) {
      Notification.dismiss(this._id);
      this._id = null;
    }
  }

  private _id: string | null = null;
  private _last = '';
  private _isDisposed = false;
}

function summary(text: string, actions: Notification.IAction[]): string {
  return [text, ...actions.map(action => action.label)].join('\n');
}
