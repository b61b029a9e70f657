/** Limits of spending and use, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ILimit } from '../api/wire/index.js';
import * as format from './format.js';

/** Whose limit it is: `your limit`, `the limit of group research`. */
export function limitName(
  { scope, name }: Pick<ILimit, 'scope' | 'name'>,
  trans: TranslationBundle
): string {
  switch (scope) {
    case 'user':
      return trans.__('your limit');
    case 'group':
      return trans.__('the limit of group %1', name);
    case 'project':
      return trans.__('the limit of project %1', name);
    default:
      return trans.__('the limit of this hub');
  }
}

/** `$412.50`, `12.5 GPU-hours`. */
export function limitAmount(kind: string, amount: number, trans: TranslationBundle): string {
  const usd = `$${Number.isInteger(amount) ? amount : amount.toFixed(2)}`;
  switch (kind) {
    case 'gpu_hours_per_month':
      return trans.__('%1 GPU-hours', tenths(amount));
    case 'servers':
      return trans._n('%1 server', '%1 servers', amount, amount);
    case 'usd_per_hour':
      return trans.__('%1 per hour', usd);
    default:
      return usd;
  }
}

/** What is counted, and in which time: `Limit (month)`, `Limit (7 days)`, `Credit`. */
export function limitLabel(limit: ILimit, trans: TranslationBundle): string {
  switch (limit.kind) {
    case 'usd_per_window':
      return limit.days === 1
        ? trans.__('Limit (today)')
        : trans.__('Limit (%1 days)', limit.days ?? 0);
    case 'credit_usd':
      return trans.__('Credit');
    case 'usd_per_hour':
    case 'servers':
      return trans.__('Limit (at once)');
    default:
      return trans.__('Limit (month)');
  }
}

/** `$412.50 of $3000`, `12.5 of 100 GPU-hours`; only the share where amounts are not said. */
export function limitUse(of: ILimit, trans: TranslationBundle): string {
  const { kind, used, limit } = of;
  if (used === null || limit === null) {
    return of.at_least ? trans.__('at least %1 %', of.percent) : trans.__('%1 %', of.percent);
  }
  const whole = limitAmount(kind, limit, trans);
  const part = kind === 'gpu_hours_per_month' ? `${tenths(used)}` : limitAmount(kind, used, trans);
  return of.at_least
    ? trans.__('at least %1 of %2', part, whole)
    : trans.__('%1 of %2', part, whole);
}

/** What comes of it: `Used up at 16:40 at this rate; then the server stops.` Empty for nothing. */
export function limitForecast(limit: ILimit, now: number, trans: TranslationBundle): string {
  if (limit.kind === 'usd_per_hour' || limit.kind === 'servers') {
    return trans.__('More runs than that: no other server can start.');
  }
  const at = limit.stop_at ?? limit.reached_at;
  if (at === null) {
    return '';
  }
  const time = format.timeOfDay(Date.parse(at), now);
  if (limit.stop_at !== null) {
    return trans.__('The server stops at %1.', time);
  }
  if (limit.percent >= 100) {
    return trans.__('Used up: no server can start.');
  }
  return limit.stops
    ? trans.__('Used up at %1 at this rate; then the server stops.', time)
    : trans.__('Used up at %1 at this rate.', time);
}

/** Who pays, where that is not the user alone: `group research`; else empty. */
export function payerName(payer: string, trans: TranslationBundle): string {
  const [kind, ...rest] = payer.split(':');
  const name = rest.join(':');
  return kind === 'group'
    ? trans.__('group %1', name)
    : kind === 'project'
      ? trans.__('project %1', name)
      : '';
}

function tenths(amount: number): number {
  return Math.round(10 * amount) / 10;
}
