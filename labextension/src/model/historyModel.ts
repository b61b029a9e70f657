import { type ServerConnection } from '@jupyterlab/services';
import { Poll } from '@lumino/polling';
import { type ISignal, Signal } from '@lumino/signaling';
import type { IDisposable } from '@lumino/disposable';

import { isSameMachine, merged, since } from './history.js';
import { request } from '../api/request.js';
import type { IHistory } from '../api/wire/index.js';

/** As often as there is a new step. */
const POLL_MS = 5000;
const MAX_POLL_MS = 60_000;

/** The last hour of this server, asked for only while somebody looks at it. */
export class HistoryModel implements IDisposable {
  constructor({ serverSettings, isWatched }: HistoryModel.IOptions) {
    this._serverSettings = serverSettings;
    this._poll = new Poll({
      name: 'ec2spawner:history',
      factory: () => this._ask(),
      frequency: { interval: POLL_MS, backoff: true, max: MAX_POLL_MS },
      standby: () => document.hidden || !isWatched()
    });
  }

  /** Emitted when there is something new. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get history(): IHistory | null {
    return this._history;
  }

  /** Ask now instead of at the next turn. */
  refresh(): void {
    void this._poll.refresh();
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    this._poll.dispose();
    Signal.clearData(this);
  }

  private async _ask(): Promise<void> {
    const known = this._history;
    let news = await this._since(since(known));
    if (known && !isSameMachine(known, news)) {
      // What came is only the end of another machine's hour.
      news = await this._since(0);
    }
    this._history = merged(known, news);
    this._changed.emit();
  }

  private async _since(seconds: number): Promise<IHistory> {
    return (await request(this._serverSettings, `history?since=${seconds}`)) as IHistory;
  }

  private readonly _serverSettings: ServerConnection.ISettings;
  private readonly _poll: Poll<void, unknown>;
  private readonly _changed = new Signal<this, void>(this);
  private _history: IHistory | null = null;
}

export namespace HistoryModel {
  export interface IOptions {
    serverSettings: ServerConnection.ISettings;
    /** Whether a person has charts on the screen now. */
    isWatched: () => boolean;
  }
}
