/** The workers of this server in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IClusterPrice, IClusterStatus, IWorkerStatus } from '../api/wire/index.js';
import { busyWorkers, isPresent, joined, rateOf, workerState } from '../model/cluster.js';
import { callOf } from '../model/clusterRequest.js';
import * as format from './format.js';

/** Two lines in a list, each with a value at its end. */
export interface IWorkerText {
  number: string;
  /** The number in words, for a screen reader. */
  name: string;
  state: string;
  gpu: string;
  hardware: string;
  cost: string;
  /** As a tooltip. */
  note: string;
}

export function workerText(
  worker: IWorkerStatus,
  now: number,
  trans: TranslationBundle
): IWorkerText {
  const { instance_type: type, market, usd, usd_per_hour: rate } = worker;
  const costs = [usd === null ? '' : format.usd(usd), rate === null ? '' : perHour(rate, trans)];
  const unknown = worker.state === 'ending' ? '' : trans.__('price unknown');
  return {
    number: `${worker.number}`,
    name: trans.__('Worker %1', worker.number),
    state: stateText(worker, trans),
    gpu: worker.gpu_percent === null ? '' : trans.__('GPU %1', format.percent(worker.gpu_percent)),
    hardware: type && [type, market ?? ''].filter(Boolean).join(' · '),
    cost: type && (costs.filter(Boolean).join(' · ') || unknown),
    note: noteOf(worker, now, trans)
  };
}

function stateText(worker: IWorkerStatus, trans: TranslationBundle): string {
  switch (workerState(worker)) {
    case 'waiting':
      return trans.__('looking for a machine');
    case 'joining':
      return trans.__('joining');
    case 'busy':
      return trans.__('busy');
    case 'idle':
      return trans.__('idle');
    case 'reclaimed':
      return trans.__('being reclaimed');
    case 'ending':
      return trans.__('ending');
  }
}

function noteOf(worker: IWorkerStatus, now: number, trans: TranslationBundle): string {
  const { interruption_at: at, idle_since: since, zone } = worker;
  switch (workerState(worker)) {
    case 'reclaimed':
      return trans.__('AWS reclaims its instance at %1.', format.time(Date.parse(at ?? '')));
    case 'idle':
      return trans.__('idle since %1', format.timeOfDay(Date.parse(since ?? ''), now));
    case 'busy':
      return zone;
    default:
      return worker.message;
  }
}

/** `3 of 4 joined`. */
export function joinedText(status: IClusterStatus, trans: TranslationBundle): string {
  if (status.wanted === 0) {
    return isPresent(status) ? trans.__('The cluster is being stopped.') : '';
  }
  return trans.__('%1 of %2 joined', joined(status).length, status.wanted);
}

/** `$1.24/h`, of all workers; empty where none has an instance with a known price. */
export function rateText(status: IClusterStatus, trans: TranslationBundle): string {
  const rate = rateOf(status.workers);
  return rate === null ? '' : format.amount(rate, usd => perHour(usd, trans), trans);
}

/** Why workers are missing or were stopped; empty if nothing is wrong. */
export function problemText(status: IClusterStatus, trans: TranslationBundle): string {
  const why = status.problem && withStop(status.problem);
  if (status.wanted === 0) {
    return why && trans.__('The cluster was stopped: %1', why);
  }
  return status.has_given_up
    ? [why, trans.__('No more workers are started until you try again.')].filter(Boolean).join(' ')
    : why;
}

/** Of the cluster that the server had before its last stop; empty where there is one, or was none. */
export function rememberedText(status: IClusterStatus, trans: TranslationBundle): string {
  if (isPresent(status) || status.last_workers === 0) {
    return '';
  }
  const { last_workers: count, last_profile_name: profile } = status;
  return trans._n(
    'This server had %1 worker (%2) before its last stop. To start it again, run:',
    'This server had %1 workers (%2) before its last stop. To start them again, run:',
    count,
    profile
  );
}

/** The code that starts the cluster of `rememberedText` again. */
export function restartCode(status: IClusterStatus): string {
  const { last_workers: workers, last_profile: profile, last_engine: engine } = status;
  return callOf({ workers, profile, engine: engine ?? 'ray' });
}

/** What so many workers would cost; `6 workers: about $1.86/h together, at most $6.04/h`. */
export function priceText(price: IClusterPrice, trans: TranslationBundle): string {
  const { workers, usd_per_hour: usd, max_usd_per_hour: max } = price;
  const what = trans._n('%1 worker', '%1 workers', workers, workers);
  if (!price.instance_type) {
    return trans.__('%1: EC2 offers none of this kind now.', what);
  }
  if (usd === null) {
    return trans.__('%1: price unknown.', what);
  }
  return max !== null && max > usd
    ? trans.__(
        '%1: about %2, at most %3 (estimate).',
        what,
        perHour(usd, trans),
        perHour(max, trans)
      )
    : trans.__('%1: about %2 (estimate).', what, perHour(usd, trans));
}

/** What a smaller cluster ends besides idle workers; empty where that is nothing. */
export function endsBusyText(
  status: IClusterStatus,
  workers: number,
  trans: TranslationBundle
): string {
  const ends = busyWorkers(status) - workers;
  return ends > 0
    ? trans._n(
        'At least %1 busy worker ends, with what runs on it.',
        'At least %1 busy workers end, with what runs on them.',
        ends,
        ends
      )
    : '';
}

/** What a cluster would cost, before it is started. */
export interface IStartPriceText {
  /** Such as `About $0.93/h for 3 workers together`. */
  sum: string;
  /** What would be bought, and what it may cost at most; may be empty. */
  detail: string;
}

export function startPriceText(price: IClusterPrice, trans: TranslationBundle): IStartPriceText {
  const { workers, instance_type: type, market, usd_per_hour: usd, max_usd_per_hour: max } = price;
  if (!type) {
    return {
      sum: trans.__('EC2 offers none of this kind now.'),
      detail: trans.__('Workers are asked for again until EC2 has them.')
    };
  }
  const what = trans.__('%1 × %2', workers, [type, market ?? ''].filter(Boolean).join(', '));
  if (usd === null) {
    return { sum: trans.__('The price is unknown.'), detail: what };
  }
  const detail =
    max !== null && max > usd
      ? trans.__('%1; at most %2 (estimate)', what, perHour(max, trans))
      : trans.__('%1 (estimate)', what);
  const sum = trans._n(
    'About %2 for %1 worker',
    'About %2 for %1 workers together',
    workers,
    perHour(usd, trans)
  );
  return { sum, detail };
}

/** What a stop of the cluster ends, and what it costs until then. */
export function stopClusterTexts(status: IClusterStatus, trans: TranslationBundle): string[] {
  const busy = busyWorkers(status);
  const rate = rateText(status, trans);
  return [
    busy > 0
      ? trans._n(
          '%1 worker is busy. What runs on it is lost.',
          '%1 workers are busy. What runs on them is lost.',
          busy
        )
      : '',
    rate === ''
      ? trans.__('All workers end, and their local files are deleted.')
      : trans.__('All workers (%1) end, and their local files are deleted.', rate),
    trans.__('This server stays on, with its notebooks and kernels.')
  ].filter(Boolean);
}

function perHour(usd: number, trans: TranslationBundle): string {
  return format.usdPerHour(usd).replace('/h', trans.__('/h'));
}

function withStop(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
