/** The server in sentences, for the tooltip, the screen reader and the panel. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ICost, INotebookStatus } from '../api/wire/index.js';
import { gpusOf, isGuest, knownCostAt, priceOf, stateOf } from '../model/state.js';
import type { IView } from '../model/statusModel.js';
import { activitySentence } from './activityText.js';
import { unknownPrices } from './costText.js';
import * as format from './format.js';
import { sentenceText } from './sentenceText.js';
import {
  continues,
  continuesSoon,
  keptIfInterruptedSentence,
  keptSentence,
  savingText,
  sleeps
} from './sleepText.js';
import { terminationSentence } from './terminationText.js';
import { countText, workersRate, workersShare } from './workersText.js';

/** The state of the server, for a screen reader: nothing in it changes by the second. */
export function announcement(view: IView, trans: TranslationBundle): string {
  const state = stateOf(view);
  switch (state.kind) {
    case 'loading':
    case 'unknown':
      return '';
    case 'away':
      return awaySentence(view, trans);
    case 'moving':
      return movingSentence(trans);
    case 'stopped':
    case 'stopping':
      return terminationSentence(view, trans);
    case 'interrupted':
      return interruptedSentence(view.status, trans);
    case 'agent-silent':
    case 'hub-silent':
    case 'disk-full':
      return troubleSentences(view, trans).find(Boolean) ?? '';
    case 'warned':
    case 'limited':
      return sleeps(view.status)
        ? trans.__('This server sleeps soon.')
        : trans.__('This server stops soon.');
    case 'waking':
      return trans.__('Your session is waking.');
    case 'idle':
      return trans.__('This server is idle.');
    case 'in-use':
      return trans.__('This server is in use.');
  }
}

/** Everything, as sentences. Nothing in them changes by the second. */
export function sentences(view: IView, trans: TranslationBundle): string[] {
  const status = view.status;
  if (!status) {
    return view.phase === 'away'
      ? [awaySentence(view, trans), view.problem].filter(Boolean)
      : [trans.__('Loading the status of this server.')];
  }
  const isOver = stateOf(view).kind === 'stopped';
  const cost = status.managed ? costSentences(status.cost, view.now, trans) : [];
  return [
    ...troubleSentences(view, trans),
    // The first says what it has cost; no price and no use hold any more.
    ...(isOver ? cost.slice(0, 1) : [...cost, ...machineSentences(status, trans)]),
    ...stopSentences(view, trans),
    sharedSentence(status, trans)
  ].filter(Boolean);
}

/** Also where nothing more is known than that the login does not count: the server says no more. */
export function signInSentence({ status }: IView, trans: TranslationBundle): string {
  return isGuest(status)
    ? trans.__('Sign in again: your login has ended, or this server is no longer shared with you.')
    : trans.__('Sign in again: this server was started again elsewhere, or your login has ended.');
}

function awaySentence(view: IView, trans: TranslationBundle): string {
  return view.isSignedOut ? signInSentence(view, trans) : trans.__('This server does not respond.');
}

/** What is wrong with the server, or with what is known of it. */
export function troubleSentences(view: IView, trans: TranslationBundle): string[] {
  const state = stateOf(view);
  if (state.kind === 'stopped' || state.kind === 'stopping') {
    return [terminationSentence(view, trans), savingText(view.status?.saving ?? null, trans)];
  }
  if (state.kind === 'moving') {
    return [movingSentence(trans)];
  }
  if (state.kind === 'away' && view.isSignedOut) {
    return [signInSentence(view, trans)];
  }
  if (state.kind === 'away') {
    return [
      trans.__('This server does not respond. Reconnecting; the figures are the last known ones.'),
      view.problem
    ];
  }
  if (state.kind === 'interrupted') {
    return [`${interruptedSentence(view.status, trans)} ${filesSentence(view.status, trans)}`];
  }
  if (state.kind === 'agent-silent') {
    return [
      trans.__('The instance agent does not respond; cost and stop time are the last known ones.')
    ];
  }
  const lost = view.status?.managed && !view.status.hub_reachable;
  return [
    ...(view.status?.full_disks ?? []).map(each => sentenceText(each, trans)),
    lost ? trans.__('Hub unreachable; cost estimated at the last known price.') : '',
    scheduledSentence(view.status, trans)
  ];
}

/** What AWS has announced of the instance, days in advance. */
function scheduledSentence(status: INotebookStatus | null, trans: TranslationBundle): string {
  const notice = status?.notices.find(each => each.kind === 'scheduled-event');
  if (!notice) {
    return '';
  }
  const details = notice.details.map(each => sentenceText(each, trans));
  return [`${sentenceText(notice.title, trans)}.`, ...details].join(' ');
}

function costSentences(cost: ICost | null, now: number, trans: TranslationBundle): string[] {
  const spent = cost && knownCostAt(cost, now);
  if (!cost || spent === null) {
    return [trans.__('The cost of this server is not known yet.')];
  }
  const since = format.timeOfDay(Date.parse(cost.since), now);
  const amount = format.amount(spent, format.usd, trans);
  const found = cost.estimate
    ? trans.__('This server has cost %1 (USD, estimate) since %2.', amount, since)
    : trans.__('This server has cost %1 (USD) since %2.', amount, since);
  const shares = workersShare(cost, now, trans);
  const { workers } = cost;
  const beside = [
    shares && trans.__('Of that: %1.', shares),
    workers?.running
      ? trans.__(
          'Besides: %1 at %2.',
          countText(workers.running, trans),
          workersRate(workers, trans)
        )
      : ''
  ];
  return [...ownCostSentences(cost, found, trans), ...beside].filter(Boolean);
}

/** What the server alone costs, after what it has cost. */
function ownCostSentences(cost: ICost, found: string, trans: TranslationBundle): string[] {
  const known = priceOf(cost);
  if (known === null) {
    return [found, trans.__('Its current price is not known.')];
  }
  const hourly = format.amount(known, plainPrice, trans);
  const price = cost.market
    ? trans.__('It costs %1 per hour (%2).', hourly, cost.market)
    : trans.__('It costs %1 per hour.', hourly);
  if (known.isLowerBound) {
    return [found, price, unknownPrices(cost, trans)];
  }
  const onDemand = cost.on_demand_usd_per_hour;
  return cost.market === 'spot' && onDemand !== null
    ? [found, price, trans.__('On-demand would cost %1 per hour.', plainPrice(onDemand))]
    : [found, price];
}

/** To a hundredth of a cent, as EC2 prices are, without zeros that say nothing. */
function plainPrice(usdPerHour: number): string {
  return `$${Number(usdPerHour.toFixed(4))}`;
}

function machineSentences(status: INotebookStatus, trans: TranslationBundle): string[] {
  const gpus = gpusOf(status);
  if (!gpus) {
    return [];
  }
  const name = gpus.count > 1 ? `${gpus.count} × ${gpus.name}` : gpus.name;
  const texts = [];
  if (gpus.usePercent === null) {
    texts.push(trans.__('GPU %1: utilization unknown.', name));
  } else {
    texts.push(trans.__('GPU %1: %2 % in use.', name, Math.round(gpus.usePercent)));
  }
  if (gpus.usedMib !== null && gpus.totalMib !== null) {
    const unit = format.mibPerGb(gpus.oneMib ?? gpus.totalMib);
    const used = (gpus.usedMib / unit).toFixed(1);
    const total = (gpus.totalMib / unit).toFixed(0);
    texts.push(trans.__('GPU memory: %1 of %2 GB.', used, total));
  }
  if (gpus.simulated) {
    texts.push(trans.__('These GPU figures are simulated.'));
  }
  return [texts.join(' ')];
}

function stopSentences(view: IView, trans: TranslationBundle): string[] {
  const state = stateOf(view);
  if (['away', 'moving', 'stopped', 'stopping', 'interrupted'].includes(state.kind)) {
    return []; // The troubles say so already, and what ran no longer keeps it on.
  }
  const said = activitySentence(view.status, view.now, trans);
  if (state.kind === 'limited') {
    const at = format.timeOfDay(state.stopAt, view.now);
    return [
      said,
      sleeps(view.status) ? trans.__('It sleeps at %1.', at) : trans.__('It stops at %1.', at)
    ];
  }
  if ((state.kind !== 'idle' && state.kind !== 'warned') || state.stopAt === null) {
    return [said];
  }
  const left = format.duration(state.stopAt - view.now, trans);
  const ends = sleeps(view.status)
    ? trans.__('It sleeps in %1 unless it is used.', left)
    : trans.__('It stops in %1 unless it is used.', left);
  return [said, ends];
}

/** Of a spot instance that AWS has announced to reclaim. */
export function interruptedSentence(
  status: INotebookStatus | null,
  trans: TranslationBundle
): string {
  const reclaimed =
    status?.continues && status.files_kept
      ? trans.__('AWS is reclaiming this instance.')
      : trans.__('AWS is reclaiming this instance. Save your work now.');
  const busy = status?.idleness?.busy;
  return busy?.code === 'kernel-running' && busy.params.name
    ? `${reclaimed} ${trans.__('The cell running in %1 will be interrupted.', busy.params.name)}`
    : reclaimed;
}

/** Of a server that has left its instance and is not ready on another one yet. */
export function movingSentence(trans: TranslationBundle): string {
  return trans.__('Your session continues on another machine. This page reconnects by itself.');
}

/**
 * What is lost with the server, and what is not.
 *
 * @param isAsleep - Whether its session can be woken; by default, whether it is to be saved.
 */
export function filesSentence(
  status: INotebookStatus | null,
  trans: TranslationBundle,
  isAsleep = status?.stop ? Boolean(status.stop.sleep) : sleeps(status)
): string {
  if (status?.files_kept === false) {
    return trans.__('Files are lost: save them elsewhere.');
  }
  if (continues(status?.stop) || continuesSoon(status)) {
    return trans.__('Your session is saved and continues on another machine, with this page.');
  }
  if (status?.stop?.reason === 'interruption' && !status.stop.sleep && status.continues) {
    return trans.__('Files are kept; variables come back as last saved. This page reconnects.');
  }
  return isAsleep ? keptSentence(trans) : trans.__('Files are kept; kernel memory is lost.');
}

/** What is kept at a stop that does not wait for a running cell. */
export function filesAtLimitSentence(
  status: INotebookStatus | null,
  trans: TranslationBundle
): string {
  return sleeps(status) ? keptIfInterruptedSentence(trans) : filesSentence(status, trans);
}

/** Why there are no buttons; empty where there are. */
export function sharedSentence(status: INotebookStatus, trans: TranslationBundle): string {
  return isGuest(status)
    ? trans.__('This server is shared with you: only its owner can keep it on or stop it.')
    : '';
}

/** `Keep until 18:00`. */
export function keepLabel(until: number, trans: TranslationBundle): string {
  return trans.__('Keep until %1', format.time(until));
}
