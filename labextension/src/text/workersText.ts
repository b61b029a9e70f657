/** What the workers of a server's cluster cost, beside the server, and that they end with it. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ICost, INotebookStatus, IWorkersCost } from '../api/wire/index.js';
import { partAt, priceOf } from '../model/state.js';
import * as format from './format.js';

/** `server $1.20 + workers $3.40`; empty where there were no workers. */
export function workersShare(cost: ICost, now: number, trans: TranslationBundle): string {
  const own = partAt(cost, now);
  const workers = cost.workers && partAt(cost.workers, now);
  if (!cost.workers || own === null) {
    return '';
  }
  const server = format.amount(own, format.usd, trans);
  return workers === null
    ? trans.__('server %1 + workers at an unknown price', server)
    : trans.__('server %1 + workers %2', server, format.amount(workers, format.usd, trans));
}

/** `$1.06/h` of all that are paid now. */
export function workersRate(workers: IWorkersCost, trans: TranslationBundle): string {
  const price = priceOf(workers);
  const hourly = (usd: number): string => format.usdPerHour(usd).replace('/h', trans.__('/h'));
  return price === null ? trans.__('price unknown') : format.amount(price, hourly, trans);
}

/** That they end with their server; empty where there are none. */
export function workersEndSentence(
  status: INotebookStatus | null,
  trans: TranslationBundle
): string {
  const count = status?.cost?.workers?.count ?? 0;
  return count > 0
    ? trans._n(
        'The worker of its cluster ends, too, with what runs on it.',
        'The %1 workers of its cluster end, too, with what runs on them.',
        count,
        count
      )
    : '';
}

/** `1 worker`, `2 workers`. */
export function countText(count: number, trans: TranslationBundle): string {
  return trans._n('%1 worker', '%1 workers', count, count);
}
