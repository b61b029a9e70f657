/** When a server stops and why, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import * as format from './format.js';
import { activitySentence, maxAgeSentence } from './activityText.js';
import { limitName } from './limitText.js';
import { filesAtLimitSentence, filesSentence, interruptedSentence } from './serverText.js';
import { savingText } from './sleepText.js';
import { terminationSentence } from './terminationText.js';
import type { IView } from '../model/statusModel.js';
import { canControl, costAt, type IKeep, instant, knownPrice, stateOf } from '../model/state.js';
import type { IIdlePolicy, INotebookStatus, IWorkingHours } from '../api/wire/index.js';

export interface IStopText {
  /** The countdown, large; empty while nothing counts down. */
  headline: string;
  urgent: boolean;
  /** How much of the idle time has passed, in percent; null while nothing counts down. */
  passed: number | null;
  sentence: string;
  kept: string;
}

/** Who keeps the server on: an admin or a service by name, or its user, who may be the reader. */
function keptSentence(status: INotebookStatus, until: string, trans: TranslationBundle): string {
  if (status.extended_by) {
    return trans.__('%1 keeps it on until %2.', status.extended_by, until);
  }
  return status.can_control
    ? trans.__('You asked to keep it on until %1.', until)
    : trans.__('Its owner asked to keep it on until %1.', until);
}

export function stopText(view: IView, trans: TranslationBundle): IStopText {
  const status = view.status;
  const state = stateOf(view);
  const idleness = status?.idleness ?? null;
  const extended = instant(status?.extended_until);
  const text: IStopText = {
    headline: '',
    urgent: false,
    passed: null,
    sentence: activitySentence(status, view.now, trans),
    kept:
      status !== null && extended !== null && extended > view.now
        ? keptSentence(status, format.timeOfDay(extended, view.now), trans)
        : ''
  };
  const since = instant(idleness?.idle_since);
  if (state.kind === 'away' || state.kind === 'moving') {
    return { ...text, sentence: '', kept: '' };
  }
  if (state.kind === 'stopped' || state.kind === 'stopping') {
    return {
      ...text,
      sentence: [
        terminationSentence(view, trans),
        savingText(state.kind === 'stopping' ? (status?.saving ?? null) : null, trans)
      ]
        .filter(Boolean)
        .join(' '),
      kept: filesSentence(status, trans, view.end?.asleep)
    };
  }
  if (state.kind === 'interrupted') {
    const sentence = interruptedSentence(status, trans);
    const headline = trans.__('in %1', longCountdown(state.at - view.now, trans));
    return { ...text, headline, urgent: true, sentence, kept: filesSentence(status, trans) };
  }
  if (state.kind === 'limited') {
    const headline = trans.__('in %1', longCountdown(state.stopAt - view.now, trans));
    const sentence = trans.__('By then %1 is used up.', limitName(state.limit, trans));
    return { ...text, headline, urgent: true, sentence, kept: filesAtLimitSentence(status, trans) };
  }
  if ((state.kind !== 'idle' && state.kind !== 'warned') || state.stopAt === null) {
    return text;
  }
  const left = state.stopAt - view.now;
  const whole = since === null ? null : Math.max(1, state.stopAt - since);
  return {
    ...text,
    headline: trans.__('in %1', longCountdown(left, trans)),
    urgent: state.kind === 'warned',
    passed: whole === null ? null : 100 * (1 - left / whole),
    kept: text.kept || (since === null ? filesAtLimitSentence : filesSentence)(status, trans)
  };
}

/** Why a time until which to keep the server changes nothing; empty where it does. */
export function keepNote(view: IView, choice: IKeep, trans: TranslationBundle): string {
  if (choice.changes) {
    return '';
  }
  const state = stateOf(view);
  if (state.kind === 'limited' && state.stopAt < choice.until) {
    return trans.__('By then %1 is used up, and this server stops.', limitName(state.limit, trans));
  }
  const stopAt = instant(view.status?.idleness?.stop_at);
  return stopAt !== null && stopAt < choice.until
    ? trans.__('This server reaches its maximum age before then.')
    : trans.__('This server does not stop before then.');
}

/** `9 min 41 s` in the last hour, `1 h 20 min` before. */
function longCountdown(milliseconds: number, trans: TranslationBundle): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  if (seconds >= 3600) {
    return format.shortDuration(milliseconds, trans);
  }
  const minutes = Math.floor(seconds / 60);
  const rest = (seconds % 60).toString().padStart(2, '0');
  return minutes > 0 ? trans.__('%1 min %2 s', minutes, rest) : trans.__('%1 s', seconds);
}

/** Everything that the policy says, most important first. */
export function policySentences(policy: IIdlePolicy, trans: TranslationBundle): string[] {
  const lasting = (seconds: number): string => format.duration(seconds * 1000, trans);
  const limits = limitsText(policy, trans);
  const texts = [
    limits
      ? policy.then === 'sleep'
        ? trans.__(
            'It sleeps after %1 idle: no running cell, no busy terminal, no GPU use and no typing. Files and variables are kept.',
            limits
          )
        : trans.__(
            'It stops after %1 idle: no running cell, no busy terminal, no GPU use and no typing.',
            limits
          )
      : trans.__('It does not stop when idle.'),
    maxAgeSentence(policy, trans)
  ];
  if (policy.kernel_seconds > 0) {
    texts.push(
      trans.__('A kernel that is idle for %1 is shut down.', lasting(policy.kernel_seconds))
    );
  }
  if (policy.silent_kernel_seconds > 0) {
    texts.push(
      trans.__(
        'A cell that runs for %1 without CPU or GPU use counts as idle.',
        lasting(policy.silent_kernel_seconds)
      )
    );
  }
  return texts.filter(Boolean);
}

/** `1 hour`, or `3 hours (Mon–Fri 8:00–18:00, Europe/Berlin) or 1 hour (at other times)`. */
function limitsText(policy: IIdlePolicy, trans: TranslationBundle): string {
  const lasting = (seconds: number): string => format.duration(seconds * 1000, trans);
  const { working_hours: hours, server_seconds: otherwise } = policy;
  if (!hours) {
    return otherwise > 0 ? lasting(otherwise) : '';
  }
  const texts = [];
  if (hours.server_seconds > 0) {
    texts.push(trans.__('%1 (%2)', lasting(hours.server_seconds), hoursText(hours)));
  }
  if (otherwise > 0) {
    texts.push(trans.__('%1 (at other times)', lasting(otherwise)));
  }
  return texts.join(trans.__(' or '));
}

function hoursText(hours: IWorkingHours): string {
  const times = `${timeText(hours.from_minute)}–${timeText(hours.to_minute)}`;
  return `${dayNames(hours.days)} ${times}, ${hours.timezone}`;
}

/** `Mon–Fri`, `Mon, Wed`. */
function dayNames(days: number[]): string {
  const name = new Intl.DateTimeFormat(undefined, { weekday: 'short', timeZone: 'UTC' });
  // The first of January 2024 was a Monday.
  const names = [...days].sort().map(day => name.format(Date.UTC(2024, 0, 1 + day)));
  const isRow = [...days].sort().every((day, index, sorted) => day === sorted[0] + index);
  return isRow && names.length > 2 ? `${names[0]}–${names.at(-1)}` : names.join(', ');
}

function timeText(minutes: number): string {
  return `${Math.floor(minutes / 60)}:${(minutes % 60).toString().padStart(2, '0')}`;
}

const LADDER = [900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800];

/** The idle times that the user may choose from, in seconds; empty where there is no choice. */
export function choices(status: INotebookStatus | null): number[] {
  const policy = status?.idle_policy;
  if (!status || !policy || !canControl(status) || !(policy.user_server_max_seconds > 0)) {
    return [];
  }
  const { user_server_min_seconds: shortest, user_server_max_seconds: longest } = policy;
  // Nobody chooses a limit beyond the server's greatest age.
  const most = policy.max_age_seconds > 0 ? Math.min(longest, policy.max_age_seconds) : longest;
  const least = Math.min(shortest, most);
  const found = new Set(LADDER.filter(seconds => seconds >= least && seconds <= most));
  [least, most, policy.server_seconds].filter(seconds => seconds > 0).forEach(s => found.add(s));
  return [...found].sort((a, b) => a - b);
}

/**
 * The idle time that holds at all hours, in seconds; null where there is none: without a choice of
 * the user the working hours have one of their own, or the server is not stopped for being idle.
 */
export function oneLimit(policy: IIdlePolicy): number | null {
  const { user_server_seconds: chosen, working_hours: hours, server_seconds: seconds } = policy;
  return seconds > 0 && (chosen !== null || hours === null) ? seconds : null;
}

/** What a stop now saves against waiting for it, in USD; null where that is not known. */
export function savedByStopping(view: IView): number | null {
  const state = stateOf(view);
  const cost = view.status?.cost;
  if ((state.kind !== 'idle' && state.kind !== 'warned') || state.stopAt === null || !cost) {
    return null;
  }
  const price = knownPrice(cost);
  if (price === null || price.isLowerBound || costAt(cost, view.now) === null) {
    return null;
  }
  const minutes = Math.floor(Math.max(0, state.stopAt - view.now) / 60_000);
  return (price.usd * minutes) / 60;
}

/** The labels of what ends the server now: what that saves is said where nothing is lost. */
export function endLabels(
  saved: number | null,
  maySleep: boolean,
  trans: TranslationBundle
): { sleep: string; stop: string } {
  const worth = saved === null || saved < 0.01 ? '' : `$${saved.toFixed(2)}`;
  const sleep = worth ? trans.__('Sleep now, save %1', worth) : trans.__('Sleep now…');
  const stop = worth && !maySleep ? trans.__('Stop now, save %1', worth) : trans.__('Stop now…');
  return { sleep, stop };
}
