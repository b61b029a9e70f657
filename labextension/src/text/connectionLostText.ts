/** The notification about a server that does not respond. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { terminationReason, terminationTitle } from './terminationText.js';
import type { StopReason } from '../api/wire/index.js';
import type { IView } from '../model/statusModel.js';
import { stateOf } from '../model/state.js';
import { movingSentence } from './serverText.js';

export interface IConnectionLostText {
  kind: 'away' | 'stopped';
  level: 'warning' | 'error';
  text: string;
  /** True where a press on the button starts it again. */
  startable: boolean;
  /** Whether that wakes a session. */
  wakes: boolean;
}

/** Stops that nobody requested. */
const UNREQUESTED: readonly (StopReason | undefined)[] = ['interruption', 'failed', 'lost'];

/**
 * What to say, and whether the server can be started again; null while it answers.
 *
 * @param isDirty - Whether the page has changes that are not saved.
 */
export function connectionLostText(
  view: IView,
  isDirty: boolean,
  trans: TranslationBundle
): IConnectionLostText | null {
  if (view.phase !== 'away' || !view.status?.managed) {
    return null;
  }
  const unsaved = isDirty ? trans.__('Keep this page open: it has unsaved changes.') : '';
  const state = stateOf(view).kind;
  if (state === 'moving') {
    const text = [movingSentence(trans), unsaved].filter(Boolean).join('\n');
    return { kind: 'away', level: 'warning', text, startable: false, wakes: false };
  }
  if (state !== 'stopped') {
    const title = trans.__('This server does not respond');
    const rest = [trans.__('Reconnecting.'), unsaved].filter(Boolean).join(' ');
    return {
      kind: 'away',
      level: 'warning',
      text: `${title}\n${rest}`,
      startable: false,
      wakes: false
    };
  }
  const stop = view.end?.stop ?? view.status.stop;
  const level = UNREQUESTED.includes(stop?.reason) ? 'error' : 'warning';
  const rest = [terminationReason(view, trans), unsaved].filter(Boolean).join(' ');
  const text = [terminationTitle(view, trans), rest].filter(Boolean).join('\n');
  const wakes = view.end?.asleep === true;
  return { kind: 'stopped', level, text, startable: view.status.can_control, wakes };
}
