/** Notices in words, as the server wrote them, with the time that is left. Pure. */

import { idleSentence, sharedSentence } from './describe.js';
import { duration, type Words } from './format.js';
import type { IView } from './model.js';
import { instant } from './state.js';
import type { INotice } from './wire.js';

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
  words: Words
): string {
  const since = instant(notice.since);
  // JupyterLab cuts a toast after 140 characters: what tells whose the buttons are comes first,
  // then what is lost.
  const texts = [
    view.status && notice.actions.includes('keep') ? sharedSentence(view.status, words) : '',
    notice.message,
    since === null ? '' : idleSentence(since, now, words)
  ];
  const title = titleText(notice, now, words);
  return [title, texts.filter(Boolean).join(' ')].filter(Boolean).join('\n');
}

/** True where the server is being stopped now: what may come later says when. */
export function announcesStop(notice: INotice): boolean {
  const isNow = instant(notice.until) === null;
  return notice.kind === 'stopping' || (notice.kind === 'interruption' && isNow);
}

function titleText(notice: INotice, now: number, words: Words): string {
  const until = instant(notice.until);
  if (until === null) {
    return notice.title;
  }
  return words.__('%1 in %2', notice.title, duration(announced(until - now), words));
}
