import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { request } from '../api/request.js';
import type { IHardwareChoices, IMove } from '../api/wire/index.js';
import { isStopping } from '../model/state.js';
import { isUnanswered, type StatusModel } from '../model/statusModel.js';
import { moveText } from '../text/hardwareText.js';
import { failureText } from './failureText.js';
import { chooseHardware } from './hardwareDialog.js';

/** Between two questions how far a move is. */
const POLL_MS = 3000;

/** So many questions in a row without an answer: a server that moves is away for less. */
const MAX_SILENT = 20;

/** Continue on other hardware: what there is, the choice, and what comes of it. */
export class HardwareChange {
  constructor({ app, model, trans }: HardwareChange.IOptions) {
    this._app = app;
    this._model = model;
    this._trans = trans;
  }

  /** Ask what there is, let the user choose, and ask for it. */
  async run(): Promise<void> {
    if (this._isUnderWay) {
      return;
    }
    this._isUnderWay = true;
    try {
      const hardware = (await this._ask('hardware')) as IHardwareChoices;
      if (hardware.choices.length === 0) {
        Notification.info(this._trans.__('There is no other hardware for you here.'));
        return;
      }
      const chosen = await chooseHardware(hardware, this._model.view.status, this._trans);
      if (chosen) {
        await this._move(chosen.profile);
      }
    } catch (reason) {
      const why = failureText(reason, this._trans);
      this._report(this._trans.__('Your server stays as it is. %1', why));
    } finally {
      this._isUnderWay = false;
    }
  }

  /** Ask for the move. Without an answer it may have begun; with a refusal it has not. */
  private async _move(profile: string): Promise<void> {
    let first: IMove;
    try {
      first = (await this._ask('continue', { profile })) as IMove;
    } catch (reason) {
      if (!isUnanswered(reason)) {
        throw reason;
      }
      this._reportUnknown(reason);
      return;
    }
    await this._follow(first);
  }

  /** One notification until it is decided; the notice of the stop says what follows. */
  private async _follow(first: IMove): Promise<void> {
    let move = first;
    const id = Notification.emit(moveText(move, this._trans), 'in-progress', { autoClose: false });
    try {
      while (move.state === 'looking' || move.state === 'booting') {
        move = await this._progress();
        Notification.update({ id, message: moveText(move, this._trans) });
      }
    } catch (reason) {
      Notification.dismiss(id);
      this._reportUnknown(reason);
      return;
    }
    if (move.state === 'failed') {
      const message = moveText(move, this._trans);
      Notification.update({ id, message, type: 'error', autoClose: false });
    } else {
      Notification.dismiss(id);
      this._model.refresh();
    }
  }

  /** How far it is a moment later. A refusal of the server itself ends the wait. */
  private async _progress(): Promise<IMove> {
    for (let silent = 1; ; silent++) {
      await new Promise(resolve => window.setTimeout(resolve, POLL_MS));
      try {
        return (await this._ask('continue', {})) as IMove;
      } catch (reason) {
        if (!isUnanswered(reason) || silent === MAX_SILENT || isStopping(this._model.view)) {
          throw reason;
        }
      }
    }
  }

  private _ask(path: 'hardware' | 'continue', body?: unknown): Promise<unknown> {
    return request(this._app.serviceManager.serverSettings, path, body);
  }

  /** What becomes of a move is not known, until its server stops for it, which says so itself. */
  private _reportUnknown(reason: unknown): void {
    if (isStopping(this._model.view)) {
      return;
    }
    const why = failureText(reason, this._trans);
    const id = this._report(this._trans.__('Your server may still move. %1', why));
    const onChanged = (model: StatusModel): void => {
      if (isStopping(model.view)) {
        model.changed.disconnect(onChanged);
        Notification.dismiss(id);
      }
    };
    this._model.changed.connect(onChanged);
  }

  private _report(what: string): string {
    return Notification.error(what, { autoClose: false });
  }

  private readonly _app: JupyterFrontEnd;
  private readonly _model: StatusModel;
  private readonly _trans: TranslationBundle;
  private _isUnderWay = false;
}

export namespace HardwareChange {
  export interface IOptions {
    app: JupyterFrontEnd;
    model: StatusModel;
    trans: TranslationBundle;
  }
}
