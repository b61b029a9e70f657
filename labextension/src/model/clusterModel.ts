import { type ServerConnection } from '@jupyterlab/services';
import { Poll } from '@lumino/polling';
import { type ISignal, Signal } from '@lumino/signaling';
import type { IDisposable } from '@lumino/disposable';

import { request } from '../api/request.js';
import type { IClusterAnswer, IClusterStatus } from '../api/wire/index.js';
import { isChanging } from './cluster.js';

/** Each question reaches the hub: often only while workers join or end. */
const CHANGING_MS = 3000;
const STEADY_MS = 10_000;
const MAX_POLL_MS = 60_000;

/**
 * The workers of this server. Asked for once, for the command that starts some; after that only
 * while somebody looks at them.
 */
export class ClusterModel implements IDisposable {
  constructor({ serverSettings, mayAsk, isWatched }: ClusterModel.IOptions) {
    this._serverSettings = serverSettings;
    this._mayAsk = mayAsk;
    this._isWatched = isWatched;
    this._poll = new Poll({
      name: 'ec2spawner:cluster',
      factory: () => this._ask(),
      frequency: { interval: STEADY_MS, backoff: true, max: MAX_POLL_MS },
      standby: () => document.hidden || !mayAsk() || (this._hasAnswer && !isWatched())
    });
  }

  /** Emitted after each answer, and when there is none. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The last known status; null before the first. */
  get status(): IClusterStatus | null {
    return this._status;
  }

  /** Whether the last question was not answered. */
  get isStale(): boolean {
    return this._isStale;
  }

  /** Ask now instead of at the next turn: if somebody looks, or always after what was done. */
  refresh({ always = false } = {}): void {
    if (this._mayAsk() && (always || this._isWatched())) {
      void this._poll.refresh();
    }
  }

  /**
   * Ask for a price or a change, and take the status in the answer.
   *
   * @throws as `request`.
   */
  async post(body: ClusterModel.IChange): Promise<IClusterAnswer> {
    this._asked += 1;
    const answer = (await request(this._serverSettings, 'cluster', body)) as IClusterAnswer;
    this._take(answer.status);
    return answer;
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    this._poll.dispose();
    Signal.clearData(this);
  }

  private async _ask(): Promise<void> {
    const asked = (this._asked += 1);
    try {
      const answer = (await request(this._serverSettings, 'cluster?')) as IClusterAnswer | null;
      if (!answer?.status) {
        throw new Error('The answer has no status');
      }
      // Not from before a change that was made meanwhile.
      if (asked === this._asked) {
        this._take(answer.status);
      }
    } catch (reason) {
      this._isStale = true;
      this._changed.emit();
      throw reason;
    }
  }

  private _take(status: IClusterStatus): void {
    this._status = status;
    this._hasAnswer = true;
    this._isStale = false;
    const interval = isChanging(status) ? CHANGING_MS : STEADY_MS;
    if (this._poll.frequency.interval !== interval) {
      this._poll.frequency = { ...this._poll.frequency, interval };
      // A change has its own answer: the next question comes at the new pace.
      void this._poll.schedule({ interval, phase: 'reconnected' });
    }
    this._changed.emit();
  }

  private readonly _serverSettings: ServerConnection.ISettings;
  private readonly _mayAsk: () => boolean;
  private readonly _isWatched: () => boolean;
  private readonly _poll: Poll<void, unknown>;
  private readonly _changed = new Signal<this, void>(this);
  private _status: IClusterStatus | null = null;
  private _isStale = false;
  private _hasAnswer = false;
  private _asked = 0;
}

export namespace ClusterModel {
  export interface IOptions {
    serverSettings: ServerConnection.ISettings;
    /** Whether an agent stands behind this server that can be asked. */
    mayAsk: () => boolean;
    /** Whether a person has the cluster on the screen now. */
    isWatched: () => boolean;
  }

  export type IChange =
    | { action: 'price'; workers: number; profile: string | null }
    | { action: 'scale'; workers: number }
    | { action: 'stop' };
}
