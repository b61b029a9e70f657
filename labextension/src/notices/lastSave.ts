/** Before an end: after the notice of it people still type and cells still run. */
export const LAST_SAVE_MS = 15_000;

/** Saves once more shortly before an end, wherever that moves. */
export class LastSave {
  constructor(private readonly _save: () => void) {}

  /** The end is so many ms from now; null for no known end. */
  expect(left: number | null): void {
    clearTimeout(this._timer);
    if (left !== null && left > LAST_SAVE_MS) {
      this._timer = setTimeout(this._save, left - LAST_SAVE_MS);
    }
  }

  /** There is no end any more, or it has come. */
  dispose(): void {
    clearTimeout(this._timer);
  }

  private _timer: ReturnType<typeof setTimeout> | undefined;
}
