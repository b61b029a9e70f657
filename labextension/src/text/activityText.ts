/** What keeps a server on, or since when it has been idle. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IIdlePolicy, INotebookStatus } from '../api/wire/index.js';
import { instant } from '../model/state.js';
import { duration, timeOfDay } from './format.js';
import { sentenceText } from './sentenceText.js';

/** What keeps the server on, or since when it has been idle; empty where that is not known. */
export function activitySentence(
  status: INotebookStatus | null,
  now: number,
  trans: TranslationBundle
): string {
  const idleSince = instant(status?.idleness?.idle_since);
  if (idleSince !== null) {
    return idleSentence(idleSince, now, trans);
  }
  const busy = status?.idleness?.busy;
  if (!busy) {
    return '';
  }
  const policy = status.idle_policy;
  const activity = sentenceText(busy, trans);
  return [
    policy && stopsWhenIdle(policy)
      ? trans.__('%1, so this server stays on.', activity)
      : `${activity}.`,
    policy ? maxAgeSentence(policy, trans) : ''
  ]
    .filter(Boolean)
    .join(' ');
}

/** Since when the server has been idle, by the reader's clock. */
export function idleSentence(since: number, now: number, trans: TranslationBundle): string {
  return trans.__('This server has been idle since %1.', timeOfDay(since, now));
}

/** When a server stops for its age; empty where it does not. */
export function maxAgeSentence(policy: IIdlePolicy, trans: TranslationBundle): string {
  return policy.max_age_seconds > 0
    ? trans.__(
        'It stops %1 after its start, whatever is running.',
        duration(policy.max_age_seconds * 1000, trans)
      )
    : '';
}

function stopsWhenIdle({ server_seconds: seconds, working_hours: hours }: IIdlePolicy): boolean {
  return seconds > 0 || (hours?.server_seconds ?? 0) > 0;
}
