/** Notices in words, with the time that is left. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { idleSentence } from './activityText.js';
import { sentencesText, sentenceText } from './sentenceText.js';
import { sharedSentence } from './serverText.js';
import { stopReason, wasIdleSentence } from './terminationText.js';
import { duration } from './format.js';
import type { IView } from '../model/statusModel.js';
import { instant } from '../model/state.js';
import type { INotice } from '../api/wire/index.js';

/**
 * The time left, as a notice says it: whole minutes until the last one, then 30 and 10 seconds, then
 * none. Never more than there is. Screen readers read a notice aloud whenever it changes.
 */
export function announced(milliseconds: number): number {
  const seconds = milliseconds / 1000;
  const rounded = seconds >= 60 ? Math.floor(seconds / 60) * 60 : seconds >= 30 ? 30 : 10;
  return seconds < 10 ? 0 : rounded * 1000;
}

/** What happens and when, what it means and why; `now` is the server's clock. */
export function noticeText(
  notice: INotice,
  now: number,
  view: Pick<IView, 'status'>,
  trans: TranslationBundle
): string {
  const since = instant(notice.since);
  const sinceText = notice.kind === 'stopping' ? wasIdleSentence : idleSentence;
  // JupyterLab cuts a toast after 140 characters: whose the buttons are comes first, then what is
  // lost.
  const texts = [
    view.status && notice.actions.includes('keep') ? sharedSentence(view.status, trans) : '',
    sentencesText(notice.details, trans),
    notice.stop ? stopReason(notice.stop, view.status?.can_control !== false, trans) : '',
    since === null ? '' : sinceText(since, now, trans)
  ];
  const until = instant(notice.until);
  const announcedLeft = until === null ? 0 : announced(until - now);
  const left = announcedLeft > 0 ? duration(announcedLeft, trans) : '';
  const title = noticeTitle(notice, left, trans);
  return [title, texts.filter(Boolean).join(' ')].filter(Boolean).join('\n');
}

/**
 * @param left - How long until it happens; empty where that is not known.
 */
export function noticeTitle(notice: INotice, left: string, trans: TranslationBundle): string {
  if (left && notice.title.code === 'stops') {
    return trans.__('This server stops in %1', left);
  }
  if (left && notice.title.code === 'sleeps') {
    return trans.__('This session sleeps in %1', left);
  }
  if (left && notice.title.code === 'spot-reclaim') {
    return trans.__('AWS is reclaiming this instance in %1', left);
  }
  return sentenceText(notice.title, trans);
}

/** True where the server is being stopped now: what may come later says when. */
export function announcesStop(notice: INotice): boolean {
  const isNow = instant(notice.until) === null;
  return notice.kind === 'stopping' || (notice.kind === 'interruption' && isNow);
}
