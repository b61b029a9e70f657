/** Which of several answers counts, when an earlier question is answered after a later one. Pure. */
export class ResponseOrder {
  /** A question is asked; answers its number. */
  ask(): number {
    this._asked += 1;
    return this._asked;
  }

  /**
   * Whether the answer to question `number`, given at `at` by the server's clock, is news.
   *
   * Of two answers the later given one counts. That the clock alone is behind, as one is that has
   * been set back, makes no answer old: only one to an earlier question can be.
   */
  takes(number: number, at: number): boolean {
    if (number < this._number && at < this._at) {
      return false;
    }
    this._number = Math.max(this._number, number);
    this._at = at;
    return true;
  }

  /** Whether the failure of question `number` is one more: of several at once only one counts. */
  counts(number: number): boolean {
    if (number <= this._failed) {
      return false;
    }
    this._failed = this._asked;
    return true;
  }

  private _asked = 0;
  /** The last question that had been asked when a failure was counted. */
  private _failed = 0;
  private _number = 0;
  private _at = -Infinity;
}
