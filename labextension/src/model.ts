import { ServerConnection } from '@jupyterlab/services';
import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';
import type { IDisposable } from '@lumino/disposable';

import { Newest } from './newest.js';
import { request } from './request.js';
import type { INotebookStatus } from './wire.js';

/** The endpoint answers from memory, so that this is cheap; a hidden tab does not ask. */
const POLL_MS = 3000;
const SLOWEST_POLL_MS = 30_000;

/** One lost request is no news: with two in a row the server counts as away. */
const FAILURES_UNTIL_AWAY = 2;

/** What is known of this server at a moment. */
export interface IView {
  /** `absent`: this server does not have the extension. */
  readonly phase: 'loading' | 'live' | 'away' | 'absent';
  readonly status: INotebookStatus | null;
  /** The server's clock now, in ms since the epoch; it stands still while the server is away. */
  readonly now: number;
  /** The server's own words for why it does not answer, where it has some. */
  readonly problem: string;
}

/** Asks the notebook server for its status, and lets time pass between its answers. */
export class StatusModel implements IDisposable {
  constructor(serverSettings: ServerConnection.ISettings) {
    this._serverSettings = serverSettings;
    this._poll = new Poll({
      name: 'ec2spawner:status',
      factory: () => this._ask(),
      frequency: { interval: POLL_MS, backoff: true, max: SLOWEST_POLL_MS },
      standby: () => document.hidden
    });
    this._ticker = window.setInterval(() => this._tick(), 1000);
    document.addEventListener('visibilitychange', this._onVisibilityChange);
  }

  /** Emitted with every answer, and every second between answers while the page is visible. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get view(): IView {
    const elapsed = this._phase === 'live' ? performance.now() - this._answeredAt : 0;
    const now = this._serverNow + elapsed;
    return { phase: this._phase, status: this._status, now, problem: this._problem };
  }

  /** Ask now instead of at the next turn. */
  refresh(): void {
    if (this._phase !== 'absent') {
      void this._poll.refresh();
    }
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._poll.dispose();
    window.clearInterval(this._ticker);
    document.removeEventListener('visibilitychange', this._onVisibilityChange);
    Signal.clearData(this);
  }

  private async _ask(): Promise<void> {
    const number = this._newest.ask();
    try {
      const status = (await request(this._serverSettings, 'status')) as INotebookStatus | null;
      if (!status?.now) {
        throw new Error('The status has no time');
      }
      if (this._newest.takes(number, Date.parse(status.now))) {
        this._take(status);
      }
    } catch (reason) {
      this._fail(reason);
      throw reason;
    } finally {
      this._changed.emit();
    }
  }

  private _take(status: INotebookStatus): void {
    this._status = status;
    this._serverNow = Date.parse(status.now);
    this._answeredAt = performance.now();
    this._failures = 0;
    this._problem = '';
    this._phase = 'live';
  }

  private _fail(reason: unknown): void {
    if (reason instanceof ServerConnection.ResponseError && reason.response.status === 404) {
      this._phase = 'absent';
      void this._poll.stop();
      return;
    }
    this._failures += 1;
    this._problem = reason instanceof ServerConnection.ResponseError ? reason.message : '';
    if (this._failures >= FAILURES_UNTIL_AWAY && this._phase !== 'away') {
      this._serverNow = this.view.now;
      this._phase = 'away';
    }
  }

  private _tick(): void {
    if (this._phase === 'live' && !document.hidden) {
      this._changed.emit();
    }
  }

  private _onVisibilityChange = (): void => {
    if (!document.hidden) {
      this.refresh();
    }
  };

  private readonly _serverSettings: ServerConnection.ISettings;
  private readonly _poll: Poll<void, unknown>;
  private readonly _ticker: number;
  private readonly _newest = new Newest();
  private readonly _changed = new Signal<this, void>(this);
  private _phase: IView['phase'] = 'loading';
  private _status: INotebookStatus | null = null;
  private _serverNow = 0;
  private _answeredAt = 0;
  private _failures = 0;
  private _problem = '';
}
