/** Whether the server answers, from what came of each question. Pure. */

/** `absent`: this server does not have the extension. */
export type Phase = 'loading' | 'live' | 'away' | 'absent';

/** One lost request is no news: with two in a row the server counts as away. */
const FAILURES_UNTIL_AWAY = 2;

export class ConnectionState {
  get phase(): Phase {
    return this._phase;
  }

  /** Whether the last question was answered. */
  get isAnswering(): boolean {
    return this._phase === 'live' && this._failures === 0;
  }

  answered(): void {
    this._failures = 0;
    this._phase = 'live';
  }

  /**
   * @param status - The HTTP status of the refusal; null where there was no answer at all.
   *
   * Only before the first answer does a 404 mean that the extension is not there. Later it is
   * said by whoever stands in for a server that is away: the hub, or the proxy.
   */
  failed(status: number | null): void {
    if (this._phase === 'loading' && this._failures === 0 && status === 404) {
      this._phase = 'absent';
      return;
    }
    this._failures += 1;
    if (this._failures >= FAILURES_UNTIL_AWAY) {
      this._phase = 'away';
    }
  }

  private _phase: Phase = 'loading';
  private _failures = 0;
}
