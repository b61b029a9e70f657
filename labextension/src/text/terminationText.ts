/** That a server is being stopped, or was, and why. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IStop } from '../api/wire/index.js';
import { instant } from '../model/state.js';
import type { IView } from '../model/statusModel.js';
import { timeOfDay } from './format.js';
import { continues } from './sleepText.js';

/** That it is being stopped, or was stopped, and why. */
export function terminationSentence(view: IView, trans: TranslationBundle): string {
  const title =
    view.phase === 'away'
      ? terminationTitle(view, trans)
      : stoppingTitle(view.status?.stop ?? null, trans);
  return [`${title}.`, terminationReason(view, trans)].filter(Boolean).join(' ');
}

/** What happens to a server that is being stopped; without a full stop. */
export function stoppingTitle(stop: IStop | null, trans: TranslationBundle): string {
  if (!stop?.sleep) {
    return trans.__('This server is being stopped');
  }
  return continues(stop)
    ? trans.__('Your session moves to another machine')
    : trans.__('Your session is being saved');
}

/** That a server which does not respond was stopped, and when; without a full stop. */
export function terminationTitle({ end, now }: IView, trans: TranslationBundle): string {
  const endedAt = instant(end?.ended_at);
  if (endedAt !== null && end?.asleep) {
    return trans.__('Your session has been asleep since %1', timeOfDay(endedAt, now));
  }
  if (endedAt !== null) {
    return trans.__('This server was stopped at %1', timeOfDay(endedAt, now));
  }
  return end?.stop
    ? trans.__('This server is being stopped')
    : trans.__('This server has been stopped');
}

/** Why it is being stopped, or was; empty where that is not known. */
export function terminationReason(view: IView, trans: TranslationBundle): string {
  const { end, status, now } = view;
  const stop = end?.stop ?? status?.stop ?? null;
  const idleSince = stop?.reason === 'idle' ? instant(status?.idleness?.idle_since) : null;
  if (idleSince !== null) {
    return wasIdleSentence(idleSince, now, trans);
  }
  if (stop) {
    return stopReason(stop, status?.can_control !== false, trans);
  }
  return status?.interruption_at ? trans.__('AWS reclaimed this instance.') : '';
}

/** Since when the server had been idle, by the reader's clock. */
export function wasIdleSentence(since: number, now: number, trans: TranslationBundle): string {
  return trans.__('It had been idle since %1.', timeOfDay(since, now));
}

/**
 * Why a server is stopped, in a sentence that holds before and after.
 *
 * @param isOwner - Whether the reader owns the server.
 */
export function stopReason(stop: IStop, isOwner: boolean, trans: TranslationBundle): string {
  const details = stop.message ? `${stop.message.trim().replace(/\.$/, '')}.` : '';
  switch (stop.reason) {
    case 'user':
      return isOwner ? trans.__('You requested it.') : trans.__('Its owner requested it.');
    case 'admin':
      return stop.by
        ? trans.__('The admin %1 requested it.', stop.by)
        : trans.__('An admin requested it.');
    case 'hub':
      return stop.by ? trans.__('The service %1 requested it.', stop.by) : details;
    case 'idle':
      return trans.__('It was idle.');
    case 'max-age':
      return trans.__('It reached its maximum age.');
    case 'budget':
      return details || trans.__('A limit of spending is used up.');
    case 'interruption':
      return trans.__('AWS reclaimed this instance.');
    case 'capacity':
    case 'quota':
    case 'failed':
    case 'lost':
      return details;
    default:
      // A hub that is newer than this page may know more reasons.
      return details;
  }
}
