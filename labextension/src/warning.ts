import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { Actions } from './actions.js';
import { announced, keepLabel, stoppingSentence, warningText } from './describe.js';
import type { IView, StatusModel } from './model.js';
import { keepSeconds, stateOf } from './state.js';

/** Warns before an idle server stops, for as long as that holds, and says when it is stopped. */
export class Warning {
  constructor(
    private readonly model: StatusModel,
    private readonly actions: Actions,
    private readonly trans: TranslationBundle
  ) {
    model.changed.connect(this._update, this);
  }

  private _update(): void {
    const view = this.model.view;
    const state = stateOf(view);
    if (state.kind === 'warned') {
      this._warn(view, state.stopAt);
    } else {
      this._withdraw();
    }
    if (state.kind === 'stopping' && !this._told) {
      this._told = true;
      Notification.warning(stoppingSentence(state.message, this.trans), { autoClose: false });
    }
  }

  private _warn(view: IView, stopAt: number): void {
    const left = announced(stopAt - view.now);
    const message = warningText(view, stopAt, this.trans);
    if (this._id === null) {
      this._id = Notification.warning(message, { autoClose: false, actions: this._buttons(view) });
      this._left = left;
      // "Files are kept" holds for what is in files: JupyterLab saves by itself every two minutes.
      void this.actions.saveAll();
    } else if (left !== this._left && isOnScreen(this._id)) {
      this._left = left;
      Notification.update({
        id: this._id,
        message,
        autoClose: false,
        actions: this._buttons(view)
      });
    }
  }

  private _withdraw(): void {
    if (this._id !== null) {
      Notification.dismiss(this._id);
      this._id = null;
    }
  }

  private _buttons(view: IView): Notification.IAction[] {
    const seconds = keepSeconds(view.status);
    const keep: Notification.IAction = {
      label: keepLabel(seconds, this.trans),
      displayType: 'accent',
      callback: () => void this._unlessDone(this.actions.keep())
    };
    const stop: Notification.IAction = {
      label: this.trans.__('Stop now'),
      callback: () => void this._unlessDone(this.actions.stop())
    };
    if (!this.actions.available) {
      return [];
    }
    return seconds > 0 ? [keep, stop] : [stop];
  }

  /** A button closes the warning; when nothing came of it, the warning holds still. */
  private async _unlessDone(done: Promise<boolean>): Promise<void> {
    if (!(await done)) {
      this._id = null;
      this._update();
    }
  }

  private _id: string | null = null;
  private _left = 0;
  private _told = false;
}

/**
 * True while the notification is seen, as a toast or in the notification centre. To update it
 * when it is not would bring back a toast that the user has just put away.
 */
function isOnScreen(id: string): boolean {
  const centre = document.querySelector('.jp-Notification-Center');
  return document.getElementById(id) !== null || centre !== null;
}
