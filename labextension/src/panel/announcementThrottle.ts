/** What a live region holds, and when: news at once or not at all, and never what is over. Pure. */

/** Between two announcements, in ms: a screen reader is not to chatter. */
export const PAUSE_MS = 60_000;

export class AnnouncementThrottle {
  /**
   * What is to stand in the region at `now` (in ms), when `text` holds; empty where there is
   * nothing to say.
   *
   * What holds when the panel is opened is read there, so that the first text is no news. What no
   * longer holds goes at once, which is not read aloud; what follows it may have to wait.
   */
  next(text: string, now: number): string {
    if (text !== this._said) {
      this._said = '';
    }
    this._heard ??= text || null;
    if (text !== '' && text !== this._heard && now - this._saidAt >= PAUSE_MS) {
      this._heard = text;
      this._said = text;
      this._saidAt = now;
    }
    return this._said;
  }

  /** What the listener believes: the last announcement. */
  private _heard: string | null = null;
  private _said = '';
  private _saidAt = -Infinity;
}
