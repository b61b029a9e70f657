/** The server in words: short for the status bar, in full for tooltip and screen reader. */

import type { TranslationBundle } from '@jupyterlab/translation';

import * as format from './format.js';
import type { IView } from '../model/statusModel.js';
import { costAt, gpusOf, instant, stateOf, type State } from '../model/state.js';
import type { ICost, INotebookStatus } from '../api/wire.js';

/** How much room the status item may take. */
export type Form = 'wide' | 'medium' | 'narrow';
export const FORMS: readonly Form[] = ['wide', 'medium', 'narrow'];

/** The parts of the status item, for the room there is. */
export function parts(view: IView, form: Form, trans: TranslationBundle): string[] {
  const state = stateOf(view);
  const status = view.status;
  if (!status || state.kind === 'away') {
    return [stateText(state, view.now, trans)];
  }
  const stops = stateText(state, view.now, trans);
  if (state.kind === 'stopped') {
    return [costText(status, view.now, 'narrow', trans), stops].filter(Boolean);
  }
  const machine = machineText(status, form, trans);
  const cost = costText(status, view.now, form, trans);
  if (form !== 'narrow') {
    return [machine, cost, stops].filter(Boolean);
  }
  const urgent = ['interrupted', 'warned', 'disk-full'].includes(state.kind);
  return [cost || machine, urgent ? stops : ''].filter(Boolean);
}

function machineText(status: INotebookStatus, form: Form, trans: TranslationBundle): string {
  const gpus = gpusOf(status);
  const wide = form === 'wide';
  if (!gpus) {
    const {
      cpu_percent: cpu,
      memory_used_mib: used,
      memory_total_mib: total
    } = status.telemetry ?? {};
    const texts = [
      typeof cpu === 'number' ? `CPU ${format.percent(cpu)}` : '',
      wide && typeof used === 'number' && typeof total === 'number'
        ? format.memory(used, total, format.mibPerGb(total))
        : ''
    ];
    return texts.filter(Boolean).join(' · ');
  }
  const model = format.gpuModel(gpus.name) || 'GPU';
  const name = wide ? (gpus.count > 1 ? `${gpus.count}× ${model}` : model) : 'GPU';
  const mark = !gpus.simulated ? '' : wide ? trans.__('simulated') : trans.__('sim.');
  const use = gpus.usePercent === null ? '' : format.percent(gpus.usePercent);
  const memory =
    wide && gpus.usedMib !== null && gpus.totalMib !== null
      ? format.memory(gpus.usedMib, gpus.totalMib, format.mibPerGb(gpus.oneMib ?? gpus.totalMib))
      : '';
  return [[name, mark, use].filter(Boolean).join(' '), memory].filter(Boolean).join(' · ');
}

function costText(
  status: INotebookStatus,
  now: number,
  form: Form,
  trans: TranslationBundle
): string {
  if (!status.managed) {
    return '';
  }
  const spent = status.cost && costAt(status.cost, now);
  const cost = typeof spent === 'number' ? format.usd(spent) : trans.__('cost unknown');
  if (form !== 'wide' || !status.cost) {
    return cost;
  }
  const { usd_per_hour: price, market } = status.cost;
  if (price === null) {
    return typeof spent === 'number' ? `${cost} · ${trans.__('price unknown')}` : cost;
  }
  return `${cost} · ${[format.usdPerHour(price), market ?? ''].filter(Boolean).join(' ')}`;
}

function stateText(state: State, now: number, trans: TranslationBundle): string {
  switch (state.kind) {
    case 'loading':
      return '…';
    case 'away':
      return trans.__('no answer');
    case 'stopped':
      return trans.__('stopped');
    case 'stopping':
      return trans.__('stopping');
    case 'interrupted':
      return trans.__('taken back in %1', format.countdown(state.at - now));
    case 'agent-silent':
      return trans.__('agent silent');
    case 'warned':
      return trans.__('stops in %1', format.countdown(state.stopAt - now));
    case 'disk-full':
      return trans.__('disk full');
    case 'hub-silent':
      return trans.__('hub not reached');
    case 'idle':
      return state.stopAt === null
        ? trans.__('idle')
        : trans.__('stops in %1', format.shortDuration(state.stopAt - now, trans));
    case 'in-use':
      return trans.__('in use');
    case 'unknown':
      return '';
  }
}

/** What has become of the server, for a screen reader: nothing in it ticks. */
export function announcement(view: IView, trans: TranslationBundle): string {
  const state = stateOf(view);
  switch (state.kind) {
    case 'loading':
    case 'unknown':
      return '';
    case 'away':
      return trans.__('This server does not answer.');
    case 'stopped':
    case 'stopping':
      return endSentence(view, trans);
    case 'interrupted':
      return interruptedSentence(trans);
    case 'agent-silent':
    case 'hub-silent':
    case 'disk-full':
      return troubleSentences(view, trans).find(Boolean) ?? '';
    case 'warned':
      return trans.__('This server stops soon.');
    case 'idle':
      return trans.__('Nothing works on this server.');
    case 'in-use':
      return trans.__('This server is in use.');
  }
}

/** Everything, as sentences. Nothing in them ticks by the second. */
export function sentences(view: IView, trans: TranslationBundle): string[] {
  const status = view.status;
  if (!status) {
    return view.phase === 'away'
      ? [trans.__('This server does not answer.'), view.problem].filter(Boolean)
      : [trans.__('Asking this server what it costs and does.')];
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

/** What is wrong with the server, or with what is known of it. */
export function troubleSentences(view: IView, trans: TranslationBundle): string[] {
  const state = stateOf(view);
  if (state.kind === 'stopped' || state.kind === 'stopping') {
    return [endSentence(view, trans)];
  }
  if (state.kind === 'away') {
    return [
      trans.__('This server does not answer: what follows is what it said last.'),
      view.problem
    ];
  }
  if (state.kind === 'interrupted') {
    return [`${interruptedSentence(trans)} ${keptSentence(view.status, trans)}`];
  }
  if (state.kind === 'agent-silent') {
    return [trans.__('The instance agent does not answer: cost and stop are as it said last.')];
  }
  const lost = view.status?.managed && !view.status.hub_reachable;
  return [
    view.status?.disk_full ?? '',
    lost ? trans.__('The hub is not reached: cost goes on by the last known price.') : ''
  ];
}

/** That it is stopped, or has been, and why. */
export function endSentence(view: IView, trans: TranslationBundle): string {
  const why = endReason(view, trans);
  if (view.phase === 'away') {
    return [`${endTitle(view, trans)}.`, why].filter(Boolean).join(' ');
  }
  return why
    ? trans.__('This server is being stopped: %1', why)
    : trans.__('This server is being stopped.');
}

/** That a server which does not answer has been stopped, and when; without a full stop. */
export function endTitle({ end, now }: IView, trans: TranslationBundle): string {
  const endedAt = instant(end?.ended_at);
  if (endedAt !== null) {
    return trans.__('This server was stopped at %1', format.timeOfDay(endedAt, now));
  }
  return end?.stop
    ? trans.__('This server is being stopped')
    : trans.__('This server has been stopped');
}

/** Why it is stopped or has been, as a sentence; empty where nobody knows. */
export function endReason({ end, status, now }: IView, trans: TranslationBundle): string {
  const stop = end?.stop ?? status?.stop;
  const since = stop?.reason === 'idle' ? instant(status?.idleness?.idle_since) : null;
  if (since !== null) {
    return idleSentence(since, now, trans);
  }
  if (!stop && status?.interruption_at) {
    return trans.__('AWS took this machine back.');
  }
  return stop?.message ? `${stop.message.replace(/\.$/, '')}.` : '';
}

function costSentences(cost: ICost | null, now: number, trans: TranslationBundle): string[] {
  const spent = cost && costAt(cost, now);
  if (!cost || spent === null) {
    return [trans.__('What this server has cost is not known yet.')];
  }
  const since = format.timeOfDay(Date.parse(cost.since), now);
  const amount = format.usd(spent);
  const found = cost.estimate
    ? trans.__('Estimate in USD: this server has cost %1 since %2.', amount, since)
    : trans.__('This server has cost %1 (USD) since %2.', amount, since);
  if (cost.usd_per_hour === null) {
    return [found, trans.__('Its price now is not known.')];
  }
  const hourly = plainPrice(cost.usd_per_hour);
  const price = cost.market
    ? trans.__('It costs %1 an hour now, %2.', hourly, cost.market)
    : trans.__('It costs %1 an hour now.', hourly);
  const onDemand = cost.on_demand_usd_per_hour;
  return cost.market === 'spot' && onDemand !== null
    ? [found, price, trans.__('On demand it would be %1 an hour.', plainPrice(onDemand))]
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
    texts.push(trans.__('GPU %1: its use is not known.', name));
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
    texts.push(trans.__('These GPU numbers are simulated.'));
  }
  return [texts.join(' ')];
}

function stopSentences(view: IView, trans: TranslationBundle): string[] {
  const state = stateOf(view);
  if (['away', 'stopped', 'stopping', 'interrupted'].includes(state.kind)) {
    return []; // The troubles say so already, and what ran no longer keeps it on.
  }
  const since = instant(view.status?.idleness?.idle_since);
  const said =
    since === null ? (view.status?.idleness?.sentence ?? '') : idleSentence(since, view.now, trans);
  if ((state.kind !== 'idle' && state.kind !== 'warned') || state.stopAt === null) {
    return [said];
  }
  const left = format.duration(state.stopAt - view.now, trans);
  return [said, trans.__('It stops in %1 if nothing happens.', left)];
}

/** Of a spot machine that EC2 has announced to take. */
export function interruptedSentence(trans: TranslationBundle): string {
  return trans.__('AWS takes this machine back: save your work now.');
}

/** Since when nothing works, by the reader's clock. */
export function idleSentence(since: number, now: number, trans: TranslationBundle): string {
  return trans.__('Nothing has worked here since %1.', format.timeOfDay(since, now));
}

/** What the end of the server takes along. */
export function keptSentence(status: INotebookStatus | null, trans: TranslationBundle): string {
  return status?.files_kept === false
    ? trans.__('Files on this machine are not kept: save elsewhere what you need.')
    : trans.__('Files are kept; what kernels hold in memory is not.');
}

/** Why there are no buttons; empty where there are. */
export function sharedSentence(status: INotebookStatus, trans: TranslationBundle): string {
  return status.managed && !status.can_control
    ? trans.__('It is shared with you: its owner can keep it on, or stop it.')
    : '';
}

/** `Keep until 18:00`. */
export function keepLabel(until: number, trans: TranslationBundle): string {
  return trans.__('Keep until %1', format.time(until));
}
