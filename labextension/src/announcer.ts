import { Announcements } from './announcements.js';
import { announcement } from './describe.js';
import { element, setText } from './dom.js';
import type { Words } from './format.js';
import type { IView } from './model.js';

/** Tells a screen reader what became of the server: politely, and at most once a minute. */
export class Announcer {
  readonly node = element('div', 'ec2-mod-unseen');

  constructor(private readonly words: Words) {
    this.node.setAttribute('role', 'status');
  }

  update(view: IView): void {
    const text = announcement(view, this.words);
    setText(this.node, this._announcements.next(text, performance.now()));
  }

  private readonly _announcements = new Announcements();
}
