/** The notification about a server that does not respond, or on which nothing is saved. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { stoppingTitle, terminationReason, terminationTitle } from './terminationText.js';
import type { StopReason } from '../api/wire/index.js';
import type { IView } from '../model/statusModel.js';
import { isChosenSleep, stateOf } from '../model/state.js';
import { movingSentence, signInSentence } from './serverText.js';
import { keptSentence } from './sleepText.js';
import { unsavedTitle } from './unsavedText.js';

export interface IConnectionLostText {
  kind: 'away' | 'signed-out' | 'stopped';
  level: 'success' | 'warning' | 'error';
  text: string;
  /** True where a press on the button starts it again. */
  startable: boolean;
  /** Whether that wakes a session. */
  wakes: boolean;
}

/** Stops that nobody requested. */
const UNREQUESTED: readonly (StopReason | undefined)[] = ['interruption', 'failed', 'lost'];

/**
 * What to say, and whether the server can be started again; null while it answers and all is saved.
 *
 * JupyterLab cuts a toast after 140 characters: what could be lost comes first.
 *
 * @param unsaved - Paths of the documents with changes that are not saved.
 * @param isHolding - Whether nothing is saved any more, as before a stop.
 */
export function connectionLostText(
  view: IView,
  unsaved: readonly string[],
  isHolding: boolean,
  trans: TranslationBundle
): IConnectionLostText | null {
  const isAway = view.phase === 'away';
  const isDirty = unsaved.length > 0;
  if (!view.status?.managed || !(isAway || (isHolding && isDirty))) {
    return null;
  }
  const title = isDirty ? trans.__('%1: keep this page open.', unsavedTitle(unsaved, trans)) : '';
  const said = (...parts: string[]): string => [title, ...parts].filter(Boolean).join('\n');
  const state = stateOf(view).kind;
  if (state !== 'stopped') {
    return {
      kind: view.isSignedOut ? 'signed-out' : 'away',
      level: 'warning',
      text: said(...waitingText(view, isDirty, trans)),
      startable: false,
      wakes: false
    };
  }
  const stop = view.end?.stop ?? view.status.stop;
  const asAsked = isChosenSleep(view) && view.end?.asleep === true && !isDirty;
  const requested = asAsked ? 'success' : 'warning';
  const level = UNREQUESTED.includes(stop?.reason) ? 'error' : requested;
  const ended = terminationTitle(view, trans);
  const reason = asAsked ? keptSentence(trans) : terminationReason(view, trans);
  const text = isDirty ? said(`${ended}. ${reason}`.trim()) : said(ended, reason);
  const wakes = view.end?.asleep === true;
  return { kind: 'stopped', level, text, startable: view.status.can_control, wakes };
}

/** While it is expected back. */
function waitingText(view: IView, isDirty: boolean, trans: TranslationBundle): string[] {
  const saved = isDirty ? trans.__('They are saved as soon as it runs again.') : '';
  if (view.phase !== 'away') {
    return [`${stoppingTitle(view.status?.stop ?? null, trans)}. ${saved}`];
  }
  if (stateOf(view).kind === 'moving') {
    return [movingSentence(trans)];
  }
  if (view.isSignedOut) {
    return [signInSentence(view, trans)];
  }
  const title = trans.__('This server does not respond');
  return isDirty ? [`${title}. ${saved}`] : [title, trans.__('Reconnecting.')];
}
