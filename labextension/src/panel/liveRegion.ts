import type { TranslationBundle } from '@jupyterlab/translation';

import { AnnouncementThrottle } from './announcementThrottle.js';
import { announcement } from '../text/serverText.js';
import { element, setText } from '../dom.js';
import type { IView } from '../model/statusModel.js';

/** Announces to a screen reader what the server does: politely, and at most once a minute. */
export class LiveRegion {
  readonly node = element('div', 'ec2-mod-unseen');

  constructor(private readonly trans: TranslationBundle) {
    this.node.setAttribute('role', 'status');
  }

  update(view: IView): void {
    const text = announcement(view, this.trans);
    setText(this.node, this._announcements.next(text, performance.now()));
  }

  private readonly _announcements = new AnnouncementThrottle();
}
