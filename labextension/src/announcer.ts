import { announcement } from './describe.js';
import { element } from './dom.js';
import type { Words } from './format.js';
import type { IView } from './model.js';

const PAUSE_MS = 60_000;

/** Tells a screen reader what became of the server: politely, and at most once a minute. */
export class Announcer {
  readonly node = element('div', 'ec2-mod-unseen');

  constructor(private readonly words: Words) {
    this.node.setAttribute('role', 'status');
  }

  update(view: IView): void {
    const text = announcement(view, this.words);
    const now = performance.now();
    if (text === this._said || now - this._saidAt < PAUSE_MS) {
      return;
    }
    // What holds when the panel is opened is read there.
    this.node.textContent = this._said === null ? '' : text;
    this._saidAt = this._said === null ? -Infinity : now;
    this._said = text;
  }

  private _said: string | null = null;
  private _saidAt = -Infinity;
}
