/** Notices in words, as the server wrote them, with the time that is left. Pure. */

import { sharedSentence } from './describe.js';
import { duration, type Words } from './format.js';
import type { INotebookStatus, INotice } from './wire.js';

/**
 * The time left, as a notice says it: whole minutes until the last one, then 30 and 10
 * seconds. Screen readers read a notice aloud whenever it changes.
 */
export function announced(milliseconds: number): number {
  const seconds = milliseconds / 1000;
  return (seconds > 30 ? Math.ceil(seconds / 60) * 60 : seconds > 10 ? 30 : 10) * 1000;
}

/** What happens and when, then why; `left` in milliseconds, where the notice has a time. */
export function noticeText(
  notice: INotice,
  left: number | null,
  status: INotebookStatus | null,
  words: Words
): string {
  const title =
    left === null
      ? notice.title
      : words.__('%1 in %2', notice.title, duration(announced(left), words));
  const shared = status && notice.actions.includes('keep') ? sharedSentence(status, words) : '';
  // JupyterLab cuts a toast after 140 characters: what tells whose the buttons are comes first.
  return [title, [shared, notice.message].filter(Boolean).join(' ')].filter(Boolean).join('\n');
}
