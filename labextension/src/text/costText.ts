/** What this server costs, line by line. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import * as format from './format.js';
import { costAt } from '../model/state.js';
import type { ICost } from '../api/wire.js';

/** A name and its value, and what to know of it. */
export interface ILine {
  kind: 'price' | 'saved' | 'total';
  name: string;
  value: string;
  note: string;
}

export interface ICostText {
  /** The large number. */
  amount: string;
  /** Beside it: its currency, and whether it is an estimate. */
  mark: string;
  caption: string;
  lines: ILine[];
  /** This month against the budget; null where none is set. */
  budget: { percent: number; label: string } | null;
}

/** `isOver`: the server has stopped, so that no price holds any more. */
export function costText(
  cost: ICost,
  now: number,
  trans: TranslationBundle,
  isOver = false
): ICostText {
  const spent = costAt(cost, now);
  const since = format.timeOfDay(Date.parse(cost.since), now);
  return {
    amount: spent === null ? trans.__('cost unknown') : format.usd(spent),
    mark: spent === null ? '' : cost.estimate ? trans.__('USD, estimate') : trans.__('USD'),
    caption: trans.__('this server, since %1', since),
    lines: [
      ...(isOver ? [] : [priceLine(cost, trans)]),
      ...savedLine(cost, now, trans),
      ...totalLines(cost, now, trans)
    ],
    budget: budget(cost, now, trans)
  };
}

function priceLine(cost: ICost, trans: TranslationBundle): ILine {
  const price =
    cost.usd_per_hour === null
      ? trans.__('price unknown')
      : format.usdPerHour(cost.usd_per_hour).replace('/h', trans.__('/h'));
  return {
    kind: 'price',
    name: trans.__('Now'),
    value: cost.market === null ? price : `${price}, ${cost.market}`,
    note: cost.price_source
  };
}

function savedLine(cost: ICost, now: number, trans: TranslationBundle): ILine[] {
  if (cost.saved_usd === null || cost.saved_usd <= 0) {
    return [];
  }
  const { usd_per_hour: price, on_demand_usd_per_hour: onDemand } = cost;
  const rate = price !== null && onDemand !== null ? onDemand - price : 0;
  const saved = cost.saved_usd + Math.max(0, rate) * hoursSince(cost, now);
  return [
    {
      kind: 'saved',
      name: trans.__('Saved by spot'),
      value: format.usd(saved),
      note: onDemand === null ? '' : trans.__('on-demand: %1', format.usdPerHour(onDemand))
    }
  ];
}

function totalLines(cost: ICost, now: number, trans: TranslationBundle): ILine[] {
  const lines: ILine[] = [];
  const grown = (usd: number): number => usd + (cost.usd_per_hour ?? 0) * hoursSince(cost, now);
  if (cost.today_usd !== null) {
    const note = trans.__('all your servers since midnight UTC');
    lines.push({
      kind: 'total',
      name: trans.__('Today'),
      value: format.usd(grown(cost.today_usd)),
      note
    });
  }
  if (cost.month_usd !== null) {
    const month = format.usd(grown(cost.month_usd));
    lines.push({
      kind: 'total',
      name: format.monthName(Date.parse(cost.as_of)),
      value:
        cost.budget_usd === null
          ? month
          : trans.__('%1 of %2', month, `$${plainAmount(cost.budget_usd)}`),
      note: trans.__('all your servers')
    });
  }
  return lines;
}

function budget(cost: ICost, now: number, trans: TranslationBundle): ICostText['budget'] {
  if (cost.month_usd === null || !cost.budget_usd) {
    return null;
  }
  const month = cost.month_usd + (cost.usd_per_hour ?? 0) * hoursSince(cost, now);
  const percent = Math.floor((100 * month) / cost.budget_usd);
  return { percent, label: trans.__('%1 % of the budget for this month is used', percent) };
}

function hoursSince(cost: ICost, now: number): number {
  return Math.max(0, now - Date.parse(cost.as_of)) / 3_600_000;
}

/** `200`, `12.50`. */
function plainAmount(usd: number): string {
  return Number.isInteger(usd) ? usd.toString() : usd.toFixed(2);
}
