/** Notices in words, as the server wrote them, with the time that is left. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { idleSentence, sharedSentence } from './serverText.js';
import { duration } from './format.js';
import type { IView } from '../model/statusModel.js';
import { instant } from '../model/state.js';
import type { INotice } from '../api/wire.js';

/**
 * The time left, as a notice says it: whole minutes until the last one, then 30 and 10
 * seconds. Screen readers read a notice aloud whenever it changes.
 */
export function announced(milliseconds: number): number {
  const seconds = milliseconds / 1000;
  return (seconds > 30 ? Math.ceil(seconds / 60) * 60 : seconds > 10 ? 30 : 10) * 1000;
}

/** What happens and when, what it means and why; `now` is the server's clock. */
export function noticeText(
  notice: INotice,
  now: number,
  view: Pick<IView, 'status'>,
  trans: TranslationBundle
): string {
  const since = instant(notice.since);
  // JupyterLab cuts a toast after 140 characters: what tells whose the buttons are comes first,
  // then what is lost.
  const texts = [
    view.status && notice.actions.includes('keep') ? sharedSentence(view.status, trans) : '',
    notice.message,
    since === null ? '' : idleSentence(since, now, trans)
  ];
  const title = titleText(notice, now, trans);
  return [title, texts.filter(Boolean).join(' ')].filter(Boolean).join('\n');
}

/** True where the server is being stopped now: what may come later says when. */
export function announcesStop(notice: INotice): boolean {
  const isNow = instant(notice.until) === null;
  return notice.kind === 'stopping' || (notice.kind === 'interruption' && isNow);
}

function titleText(notice: INotice, now: number, trans: TranslationBundle): string {
  const until = instant(notice.until);
  if (until === null) {
    return notice.title;
  }
  return trans.__('%1 in %2', notice.title, duration(announced(until - now), trans));
}
