/** What this server costs, line by line. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import * as format from './format.js';
import { limitForecast, limitLabel, limitName, limitUse, payerName } from './limitText.js';
import { costAt } from '../model/state.js';
import type { ICost } from '../api/wire.js';

/** A name and its value, and what to know of it. */
export interface ILine {
  kind: 'price' | 'saved' | 'split' | 'total' | 'payer' | 'limit';
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
  /** How much of the limit that is reached first is used; null where there is none. */
  limit: { percent: number; label: string; forecast: string } | null;
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
      ...splitLine(cost, trans),
      ...totalLines(cost, now, trans),
      ...payerLine(cost, trans),
      ...limitLine(cost, trans)
    ],
    limit: limit(cost, now, trans)
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
    const note = trans.__("all your servers since midnight in the hub's time zone");
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
      value: month,
      note: trans.__('all your servers')
    });
  }
  return lines;
}

function splitLine({ used_usd: used, idle_usd: idle }: ICost, trans: TranslationBundle): ILine[] {
  if (typeof used !== 'number' || typeof idle !== 'number' || used + idle === 0) {
    return [];
  }
  return [
    {
      kind: 'split',
      name: trans.__('Used, idle'),
      value: `${format.usd(used)}, ${format.usd(idle)}`,
      note: trans.__('time with and without work; the rest is for start and stop')
    }
  ];
}

function payerLine({ payer }: ICost, trans: TranslationBundle): ILine[] {
  const name = payerName(payer ?? '', trans);
  const note = trans.__('to whom this server is charged');
  return name ? [{ kind: 'payer', name: trans.__('Paid by'), value: name, note }] : [];
}

function limitLine({ limit }: ICost, trans: TranslationBundle): ILine[] {
  if (!limit) {
    return [];
  }
  const note = trans.__('the limit that is reached first: %1', limitName(limit, trans));
  return [{ kind: 'limit', name: limitLabel(limit, trans), value: limitUse(limit, trans), note }];
}

function limit({ limit }: ICost, now: number, trans: TranslationBundle): ICostText['limit'] {
  if (!limit) {
    return null;
  }
  const label = trans.__('%1 % of %2 is used', limit.percent, limitName(limit, trans));
  return { percent: limit.percent, label, forecast: limitForecast(limit, now, trans) };
}

function hoursSince(cost: ICost, now: number): number {
  return Math.max(0, now - Date.parse(cost.as_of)) / 3_600_000;
}
