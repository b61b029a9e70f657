/** What this server costs, line by line. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import * as format from './format.js';
import { limitForecast, limitLabel, limitName, limitUse, payerName } from './limitText.js';
import { grown, knownCostAt, priceOf } from '../model/state.js';
import { countText, workersRate, workersShare } from './workersText.js';
import type { ICost, IHourlyPrice } from '../api/wire/index.js';

/** A name and its value, and what to know of it. */
export interface ILine {
  kind: 'price' | 'workers' | 'change' | 'credit' | 'saved' | 'split' | 'total' | 'payer' | 'limit';
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
  const spent = knownCostAt(cost, now);
  const since = format.timeOfDay(Date.parse(cost.since), now);
  return {
    amount: spent === null ? trans.__('cost unknown') : format.amount(spent, format.usd, trans),
    mark: spent === null ? '' : cost.estimate ? trans.__('USD, estimate') : trans.__('USD'),
    caption: [trans.__('this server, since %1', since), workersShare(cost, now, trans)]
      .filter(Boolean)
      .join(': '),
    lines: [
      ...(isOver
        ? []
        : [priceLine(cost, trans), ...workersLine(cost, trans), ...changeLine(cost, now, trans)]),
      ...savedLine(cost, now, trans),
      ...splitLine(cost, trans),
      ...totalLines(cost, now, trans),
      ...creditLines(cost, trans),
      ...payerLine(cost, trans),
      ...limitLine(cost, trans)
    ],
    limit: firstLimit(cost, now, trans)
  };
}

function priceLine(cost: ICost, trans: TranslationBundle): ILine {
  const hourly = (usd: number): string => format.usdPerHour(usd).replace('/h', trans.__('/h'));
  const known = priceOf(cost);
  const price = known === null ? trans.__('price unknown') : format.amount(known, hourly, trans);
  return {
    kind: 'price',
    name: trans.__('Now'),
    value: cost.market === null ? price : `${price}, ${cost.market}`,
    note: unknownPrices(cost, trans) || partsText(cost, trans)
  };
}

function workersLine({ workers }: ICost, trans: TranslationBundle): ILine[] {
  return workers?.running
    ? [
        {
          kind: 'workers',
          name: trans.__('+ %1', countText(workers.running, trans)),
          value: workersRate(workers, trans),
          note: trans.__('the workers of its cluster')
        }
      ]
    : [];
}

/** What the price consists of, as the page of the start says it, and the source of the first. */
function partsText(cost: ICost, trans: TranslationBundle): string {
  const {
    usd_per_hour: price,
    beside_usd_per_hour: beside,
    beside_of: parts,
    price_source: source
  } = cost;
  if (price === null || !beside) {
    return source;
  }
  const instance = format.usdPerHour(price - beside);
  const rest = format.usdPerHour(beside);
  const [part] = parts;
  const name = parts.length === 1 ? partName(part, trans) : trans.__('its disk and public address');
  const text = trans.__('instance %1 + %2 %3', instance, name, rest);
  return source ? `${text} (${source})` : text;
}

/** What it cost before the price changed. */
function changeLine(
  { price_change: change }: ICost,
  now: number,
  trans: TranslationBundle
): ILine[] {
  if (!change) {
    return [];
  }
  const { why, at, before, asked } = change;
  const names = {
    start: trans.__('Asked for first'),
    move: trans.__('Before the move'),
    rise: trans.__('Until %1', format.timeOfDay(Date.parse(at), now))
  };
  const price = ({ usd_per_hour, market }: IHourlyPrice): string =>
    `${format.usdPerHour(usd_per_hour)}, ${market}`;
  const note = asked ? trans.__('asked for first: %1', price(asked)) : '';
  return [{ kind: 'change', name: names[why], value: price(before), note }];
}

/** Why today's amount has fallen. */
function creditLines({ credits }: ICost, trans: TranslationBundle): ILine[] {
  const notes = {
    'free-hour': trans.__(
      'AWS does not charge for a spot instance that it reclaims in its first hour.'
    ),
    'earlier-end': trans.__(
      'Your server had ended earlier than was known: today is less than shown before.'
    ),
    correction: trans.__('A price was known only later: today is less than shown before.')
  };
  return credits.map(({ why, usd }) => ({
    kind: 'credit',
    name: why === 'free-hour' ? trans.__('Not charged') : trans.__('Corrected'),
    value: trans.__('%1 less today', format.usd(usd)),
    note: notes[why]
  }));
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
  const today = grown(cost.today_usd, cost.known_today_usd, cost, now);
  const month = grown(cost.month_usd, cost.known_month_usd, cost, now);
  if (today !== null) {
    const note = trans.__("all your servers since midnight in the hub's time zone");
    lines.push({
      kind: 'total',
      name: trans.__('Today'),
      value: format.amount(today, format.usd, trans),
      note
    });
  }
  if (month !== null) {
    lines.push({
      kind: 'total',
      name: format.monthName(Date.parse(cost.as_of)),
      value: format.amount(month, format.usd, trans),
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

function limitLine({ limits }: ICost, trans: TranslationBundle): ILine[] {
  const limit = limits.at(0);
  if (!limit) {
    return [];
  }
  const note = trans.__('the limit that is reached first: %1', limitName(limit, trans));
  return [{ kind: 'limit', name: limitLabel(limit, trans), value: limitUse(limit, trans), note }];
}

function firstLimit({ limits }: ICost, now: number, trans: TranslationBundle): ICostText['limit'] {
  const limit = limits.at(0);
  if (!limit) {
    return null;
  }
  const label = trans.__('%1 % of %2 is used', limit.percent, limitName(limit, trans));
  return { percent: limit.percent, label, forecast: limitForecast(limit, now, trans) };
}

/** Which price is unknown, and what an admin can do; empty where all are known. */
export function unknownPrices(
  { unknown_prices_of: parts }: ICost,
  trans: TranslationBundle
): string {
  const names = parts.map(part => partName(part, trans)).join(', ');
  return names
    ? trans.__(
        'Unknown: the price of %1. Usually the hub may not read the price list of AWS: an admin can allow it pricing:GetProducts.',
        names
      )
    : '';
}

/** What a server pays for, as the server names it. */
export function partName(part: string, trans: TranslationBundle): string {
  switch (part) {
    case 'disk':
      return trans.__('its disk');
    case 'address':
      return trans.__('its public address');
    default:
      return trans.__('the instance');
  }
}

function hoursSince(cost: ICost, now: number): number {
  return Math.max(0, now - Date.parse(cost.as_of)) / 3_600_000;
}
