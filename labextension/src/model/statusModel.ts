import { PageConfig } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { Poll } from '@lumino/polling';
import { type ISignal, Signal } from '@lumino/signaling';
import type { IDisposable } from '@lumino/disposable';

import { ResponseOrder } from '../api/responseOrder.js';
import { type Phase, ConnectionState } from './connectionState.js';
import { RefusedError, request } from '../api/request.js';
import { askEnd } from '../api/serverEnd.js';
import type { INotebookStatus, IServerEnd } from '../api/wire/index.js';

/** The endpoint answers from memory, so that this is cheap. */
const POLL_MS = 3000;
const MAX_POLL_MS = 60_000;

/** With these the hub or the proxy stands in for a server that is away: their words are no news. */
const STOOD_IN_FOR = [404, 424, 502, 503, 504];

/**
 * Whether a question has no answer of the server: none in time, or one of whoever stands in for it
 * while it is away or moves.
 */
export function isUnanswered(error: unknown): boolean {
  return error instanceof ServerConnection.ResponseError
    ? STOOD_IN_FOR.includes(error.response.status)
    : error instanceof ServerConnection.NetworkError || error instanceof DOMException;
}

/** How the server answers a page whose login it does not accept. */
const SIGNED_OUT = [401, 403];

/** What is known of this server at a moment. */
export interface IView {
  readonly phase: Phase;
  readonly status: INotebookStatus | null;
  /** The server's clock now, in ms since the epoch; it stands still while the server is away. */
  readonly now: number;
  /** What the server itself says of its failure; empty where it does not respond. */
  readonly problem: string;
  /** Whether the server answers, and refuses this page's login: it is another process than the one
   * that the page was opened from, or the login has ended. */
  readonly isSignedOut: boolean;
  /** What the hub says of a server that does not answer; null where it has not been asked. */
  readonly end: IServerEnd | null;
}

/** Asks the notebook server for its status, and lets time pass between its answers. */
export class StatusModel implements IDisposable {
  constructor({ serverSettings }: StatusModel.IOptions) {
    this._serverSettings = serverSettings;
    this._poll = new Poll({
      name: 'ec2spawner:status',
      factory: () => this._ask(),
      frequency: { interval: POLL_MS, backoff: true, max: MAX_POLL_MS },
      standby: () => document.hidden && !this._isAwaited()
    });
    this._ticker = window.setInterval(() => this._tick(), 1000);
    document.addEventListener('visibilitychange', this._onVisibilityChange);
  }

  /** Emitted with every answer, and every second between answers while the page is visible. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get view(): IView {
    const { phase } = this._connection;
    const elapsed = phase === 'live' ? performance.now() - this._answeredAt : 0;
    const now = this._serverNow + elapsed;
    const isSignedOut = phase === 'away' && this._isSignedOut;
    return {
      phase,
      status: this._status,
      now,
      problem: isSignedOut ? '' : this._problem,
      isSignedOut,
      end: this._end
    };
  }

  /** Whether the last question was answered: with one that was not, the phase is still `live`. */
  get isAnswering(): boolean {
    return this._connection.isAnswering;
  }

  /** In a hidden tab, too, ask for as long as this holds; without it such a tab does not ask. */
  askWhile(isAwaited: () => boolean): void {
    this._isAwaited = isAwaited;
  }

  /** Ask now; returns when there is an answer, or none in time. Several at once ask once. */
  ask(): Promise<void> {
    this._asking ??= this._ask()
      .catch(() => undefined)
      .finally(() => (this._asking = null));
    return this._asking;
  }

  /** Ask now instead of at the next turn. */
  refresh(): void {
    if (this._connection.phase !== 'absent') {
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
    if (this._connection.phase === 'away' && !(await this._mayAnswer())) {
      if (this._end?.continues) {
        return; // It is there in a moment: the hub is asked again at the usual pace.
      }
      throw new Error('The server does not run');
    }
    const number = this._order.ask();
    try {
      const status = (await request(this._serverSettings, 'status')) as INotebookStatus | null;
      if (!status?.now) {
        throw new Error('The status has no time');
      }
      if (this._order.takes(number, Date.parse(status.now))) {
        this._take(status);
      }
    } catch (reason) {
      if (this._order.counts(number)) {
        this._fail(reason);
      }
      throw reason;
    } finally {
      this._changed.emit();
    }
  }

  /**
   * Whether a server that is away may answer again: each question to one that does not run is an
   * error in the browser's console, and the hub knows.
   */
  private async _mayAnswer(): Promise<boolean> {
    const address = this._status?.end_url;
    if (!address) {
      return true;
    }
    try {
      this._end = await askEnd(PageConfig.getOption('hubHost') + address);
    } catch {
      return true; // The hub may be away for the same reason: then only the server knows.
    }
    this._changed.emit();
    return this._end.running;
  }

  private _take(status: INotebookStatus): void {
    this._status = status;
    this._serverNow = Date.parse(status.now);
    this._answeredAt = performance.now();
    this._problem = '';
    this._isSignedOut = false;
    this._end = null;
    this._connection.answered();
  }

  private _fail(reason: unknown): void {
    const refusal = reason instanceof RefusedError ? reason : null;
    const { now, phase } = this.view;
    this._connection.failed(refusal?.response.status ?? null);
    const isOwn = refusal !== null && !STOOD_IN_FOR.includes(refusal.response.status);
    this._problem = isOwn ? refusal.message : '';
    this._isSignedOut = refusal !== null && SIGNED_OUT.includes(refusal.response.status);
    if (this._connection.phase === 'absent') {
      void this._poll.stop();
    } else if (this._connection.phase === 'away') {
      this._serverNow = now;
      if (phase !== 'away') {
        void this._mayAnswer();
      }
    }
  }

  private _tick(): void {
    if (this._connection.phase === 'live' && !document.hidden) {
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
  private readonly _order = new ResponseOrder();
  private readonly _connection = new ConnectionState();
  private readonly _changed = new Signal<this, void>(this);
  private _asking: Promise<void> | null = null;
  private _isAwaited = (): boolean => false;
  private _status: INotebookStatus | null = null;
  private _serverNow = 0;
  private _answeredAt = 0;
  private _problem = '';
  private _isSignedOut = false;
  private _end: IServerEnd | null = null;
}

export namespace StatusModel {
  export interface IOptions {
    serverSettings: ServerConnection.ISettings;
  }
}
