/** The server in the status bar, for the room there is. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { INotebookStatus } from '../api/wire/index.js';
import { gpusOf, knownCostAt, knownPrice, stateOf, type State } from '../model/state.js';
import type { IView } from '../model/statusModel.js';
import type { ISettings } from '../settings.js';
import * as format from './format.js';
import { sleeps } from './sleepText.js';
import { countText } from './workersText.js';

/** How much room the status item may take. */
export type Form = 'wide' | 'medium' | 'narrow';
export const FORMS: readonly Form[] = ['wide', 'medium', 'narrow'];

export interface IPartsOptions {
  view: IView;
  form: Form;
  settings: Readonly<ISettings>;
  trans: TranslationBundle;
}

/** The parts of the status item. A stop within minutes and a full disk are shown in any case. */
export function parts({ view, form, settings, trans }: IPartsOptions): string[] {
  const state = stateOf(view);
  const { status, now } = view;
  const text = stateText(state, view, trans);
  if (!status || state.kind === 'away' || state.kind === 'moving') {
    return [text];
  }
  const isOver = state.kind === 'stopped';
  const isUrgent = ['interrupted', 'warned', 'limited', 'disk-full'].includes(state.kind);
  const isNarrow = form === 'narrow';
  const usage = settings.statusBarUsage && !isOver ? usageText(status, form, trans) : '';
  const cost = settings.statusBarCost ? costText(status, now, isOver ? 'narrow' : form, trans) : '';
  const showsState = isOver || isUrgent || (settings.statusBarState && !isNarrow);
  const figures = isNarrow ? [cost || usage] : [usage, cost];
  return [...figures, showsState ? text : ''].filter(Boolean);
}

function usageText(status: INotebookStatus, form: Form, trans: TranslationBundle): string {
  const gpus = gpusOf(status);
  const isWide = form === 'wide';
  if (!gpus) {
    return cpuText(status, isWide, trans);
  }
  const model = format.gpuModel(gpus.name) || trans.__('GPU');
  const name = isWide ? (gpus.count > 1 ? `${gpus.count}× ${model}` : model) : trans.__('GPU');
  const mark = !gpus.simulated ? '' : isWide ? trans.__('simulated') : trans.__('sim.');
  const use = gpus.usePercent === null ? '' : format.percent(gpus.usePercent);
  const memory =
    isWide && gpus.usedMib !== null && gpus.totalMib !== null
      ? format.memory(gpus.usedMib, gpus.totalMib, format.mibPerGb(gpus.oneMib ?? gpus.totalMib))
      : '';
  return [[name, mark, use].filter(Boolean).join(' '), memory].filter(Boolean).join(' · ');
}

function cpuText(
  { telemetry }: INotebookStatus,
  isWide: boolean,
  trans: TranslationBundle
): string {
  const { cpu_percent: cpu, memory_used_mib: used, memory_total_mib: total } = telemetry ?? {};
  const texts = [
    typeof cpu === 'number' ? trans.__('CPU %1', format.percent(cpu)) : '',
    isWide && typeof used === 'number' && typeof total === 'number'
      ? format.memory(used, total, format.mibPerGb(total))
      : ''
  ];
  return texts.filter(Boolean).join(' · ');
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
  const spent = status.cost && knownCostAt(status.cost, now);
  const cost = spent ? format.amount(spent, format.usd, trans) : trans.__('cost unknown');
  if (form !== 'wide' || !status.cost) {
    return cost;
  }
  const price = knownPrice(status.cost);
  if (price === null) {
    return spent ? `${cost} · ${trans.__('price unknown')}` : cost;
  }
  const hourly = format.amount(price, format.usdPerHour, trans);
  const running = status.cost.workers?.running ?? 0;
  const of =
    running > 0 ? trans.__('with %1', countText(running, trans)) : (status.cost.market ?? '');
  return `${cost} · ${[hourly, of].filter(Boolean).join(' ')}`;
}

function stateText(
  state: State,
  { status, isSignedOut, end, now }: IView,
  trans: TranslationBundle
): string {
  switch (state.kind) {
    case 'loading':
      return '…';
    case 'away':
      return isSignedOut ? trans.__('sign in again') : trans.__('not responding');
    case 'moving':
      return trans.__('moving');
    case 'stopped':
      return end?.asleep ? trans.__('asleep') : trans.__('stopped');
    case 'stopping':
      return status?.stop?.sleep ? trans.__('saving your session') : trans.__('stopping');
    case 'interrupted':
      return trans.__('reclaimed in %1', format.countdown(state.at - now));
    case 'agent-silent':
      return trans.__('agent not responding');
    case 'warned':
    case 'limited':
      return sleeps(status)
        ? trans.__('sleeps in %1', format.countdown(state.stopAt - now))
        : trans.__('stops in %1', format.countdown(state.stopAt - now));
    case 'disk-full':
      return trans.__('disk full');
    case 'hub-silent':
      return trans.__('hub unreachable');
    case 'waking':
      return trans.__('waking');
    case 'idle':
      if (state.stopAt === null) {
        return trans.__('idle');
      }
      return sleeps(status)
        ? trans.__('sleeps in %1', format.shortDuration(state.stopAt - now, trans))
        : trans.__('stops in %1', format.shortDuration(state.stopAt - now, trans));
    case 'in-use':
      return trans.__('in use');
    case 'unknown':
      return '';
  }
}
