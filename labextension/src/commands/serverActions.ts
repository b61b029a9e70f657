import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { UUID } from '@lumino/coreutils';

import { filesSentence } from '../text/serverText.js';
import { workersEndSentence } from '../text/workersText.js';
import { time } from '../text/format.js';
import { sentenceText } from '../text/sentenceText.js';
import { choose, confirm } from './confirmation.js';
import { saveAll } from './documents.js';
import { failureText } from './failureText.js';
import { HardwareChange } from './hardwareChange.js';
import type { HeldSaves } from '../documents/heldSaves.js';
import type { StatusModel } from '../model/statusModel.js';
import { RefusedError, request, sentenceOf } from '../api/request.js';
import { canControl, canSleep, isStopping, nextKeep } from '../model/state.js';

/** How long to wait for a sign that a stop was accepted, whose answer was lost. */
const STOP_SIGN_MS = 10_000;

/** What a person can do about their server. */
export class ServerActions {
  constructor({ app, model, saves, trans }: ServerActions.IOptions) {
    this._app = app;
    this._model = model;
    this._saves = saves;
    this._trans = trans;
    this._hardwareChange = new HardwareChange({ app, model, trans });
  }

  /** True where an agent stands behind this server that can be asked, and its owner asks. */
  get available(): boolean {
    const { phase, status } = this._model.view;
    return phase === 'live' && status !== null && canControl(status);
  }

  /** True where this server's session can be saved before a stop. */
  get maySleep(): boolean {
    const { status } = this._model.view;
    return this.available && status !== null && canSleep(status);
  }

  /** Until when `keep` keeps the server on, in ms since the epoch; null where that is nothing. */
  get keepUntil(): number | null {
    return this.available ? nextKeep(this._model.view) : null;
  }

  /** Keep the server on until then, by the server's clock; answers whether that was granted. */
  async keep(until: number | null = this.keepUntil): Promise<boolean> {
    if (until === null) {
      return false;
    }
    const seconds = (until - this._model.view.now) / 1000;
    try {
      const answer = await this._request('extend', { seconds });
      const said = this._trans.__('This server is kept on until %1.', time(until));
      this._reportGranted(answer, said);
      return true;
    } catch (reason) {
      this._reportFailure(this._trans.__('This server could not be kept on.'), reason);
      return false;
    } finally {
      this._model.refresh();
    }
  }

  /** Stop the server, after asking; answers whether it is being stopped, or put to sleep. */
  async stop(): Promise<boolean> {
    const { status } = this._model.view;
    const trans = this._trans;
    const maySleep = this.maySleep;
    const choice = await choose(
      {
        title: trans.__('Stop this server?'),
        texts: [
          trans.__('Open documents are saved first. Running kernels and terminals end.'),
          maySleep
            ? trans.__('Files are kept; variables are lost, unless you let it sleep instead.')
            : filesSentence(status, trans),
          workersEndSentence(status, trans)
        ],
        accept: trans.__('Stop now'),
        cancel: trans.__('Cancel')
      },
      maySleep ? trans.__('Sleep now') : ''
    );
    return choice !== null && (await this._end(choice === 'instead' ? 'sleep' : 'stop'));
  }

  /** Save the session and stop, after asking; answers whether that has begun. */
  async sleep(): Promise<boolean> {
    const isConfirmed = await confirm({
      title: this._trans.__('Let this session sleep?'),
      texts: [
        this._trans.__(
          'Documents and variables are saved in your home, then the machine is given back: from then on you pay for the disk only.'
        ),
        this._trans.__(
          'A running cell is interrupted, and terminals end. Open connections and the like do not come back; the spawn page lists what does.'
        ),
        workersEndSentence(this._model.view.status, this._trans)
      ],
      accept: this._trans.__('Sleep now'),
      cancel: this._trans.__('Cancel')
    });
    return isConfirmed && (await this._end('sleep'));
  }

  /** Continue on other hardware, after a choice. */
  continueElsewhere(): Promise<void> {
    return this._hardwareChange.run();
  }

  private async _end(how: 'stop' | 'sleep'): Promise<boolean> {
    await saveAll(this._app.shell);
    try {
      await this._request(how);
      return true;
    } catch (reason) {
      // A server that is stopped may be gone before it has answered.
      if (!isRefusal(reason) && (await this._isStoppingSoon())) {
        return true;
      }
      const failed =
        how === 'sleep'
          ? this._trans.__('This session could not be put to sleep.')
          : this._trans.__('This server could not be stopped.');
      this._reportFailure(failed, reason);
      return false;
    } finally {
      this._model.refresh();
    }
  }

  /** Stop after so many seconds without work from now on; answers whether that was granted. */
  async chooseIdle(seconds: number): Promise<boolean> {
    try {
      const answer = await this._request('idle', { server_seconds: seconds });
      this._reportGranted(answer, this._trans.__('The idle time was changed.'));
      return true;
    } catch (reason) {
      this._reportFailure(this._trans.__('The idle time could not be changed.'), reason);
      return false;
    } finally {
      this._model.refresh();
    }
  }

  /** Save before a stop, and report it: the server stops as soon as every open page has. */
  async saveForStop(): Promise<void> {
    this._saves.release(); // It may have held them before another stop.
    const unsaved = await saveAll(this._app.shell);
    this._saves.hold();
    // Without the report the stop waits for a few seconds, and comes.
    await this._request('saved', { page: this._page, unsaved }).catch(() => undefined);
  }

  /** Whether the server says within `STOP_SIGN_MS` that it stops, or falls silent. */
  private _isStoppingSoon(): Promise<boolean> {
    const model = this._model;
    return new Promise(resolve => {
      const decide = (stopping: boolean): void => {
        window.clearTimeout(timer);
        model.changed.disconnect(check);
        resolve(stopping);
      };
      const check = (): void => {
        if (isStopping(model.view)) {
          decide(true);
        }
      };
      const timer = window.setTimeout(() => decide(isStopping(model.view)), STOP_SIGN_MS);
      model.changed.connect(check);
      model.refresh();
      check();
    });
  }

  private _request(
    path: 'extend' | 'idle' | 'stop' | 'sleep' | 'saved',
    body?: unknown
  ): Promise<unknown> {
    return request(this._app.serviceManager.serverSettings, path, body);
  }

  /** With a sentence of its own, less was granted than asked for. */
  private _reportGranted(answer: unknown, said: string): void {
    const instead = sentenceOf(answer);
    if (instead) {
      Notification.info(sentenceText(instead, this._trans), { autoClose: 10_000 });
    } else {
      Notification.success(said, { autoClose: 5000 });
    }
  }

  private _reportFailure(what: string, reason: unknown): void {
    const why = failureText(reason, this._trans);
    Notification.error(`${what} ${why}`, { autoClose: false });
  }

  private readonly _hardwareChange: HardwareChange;
  private readonly _app: JupyterFrontEnd;
  private readonly _model: StatusModel;
  private readonly _saves: Pick<HeldSaves, 'hold' | 'release'>;
  private readonly _trans: TranslationBundle;
  /** By which the server distinguishes open pages. */
  private readonly _page = UUID.uuid4();
}

export namespace ServerActions {
  export interface IOptions {
    app: JupyterFrontEnd;
    model: StatusModel;
    saves: Pick<HeldSaves, 'hold' | 'release'>;
    trans: TranslationBundle;
  }
}

/** True where the hub was asked and said no; every other failure may be the stop itself. */
function isRefusal(reason: unknown): boolean {
  return reason instanceof RefusedError && reason.response.status === 409;
}
