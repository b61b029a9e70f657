/** What the server costs, and the limits of that. */

export interface ICost {
  /** Cost so far, at `as_of`. */
  usd: number | null;
  usd_per_hour: number | null;
  /** The same as far as prices are known: lower bounds where those are null. */
  known_usd: number | null;
  known_usd_per_hour: number | null;
  /** What of `usd_per_hour` is not for the instance: for its disks and public address. */
  beside_usd_per_hour: number | null;
  /** For which of them: some of `disk` and `address`. */
  beside_of: string[];
  /** What has no known price now: some of `instance`, `disk` and `address`. */
  unknown_prices_of: string[];
  as_of: string;
  /** When billing began, on its first instance. */
  since: string;
  /** True unless the figure comes from a bill. */
  estimate: boolean;
  market: 'spot' | 'on-demand' | null;
  on_demand_usd_per_hour: number | null;
  price_source: string;
  /** Null where the server costs what its user saw last. */
  price_change: IPriceChange | null;
  /** What the same time on demand would have cost more. */
  saved_usd: number | null;
  /** All servers of this user since midnight in the hub's time zone, this one included, at `as_of`. */
  today_usd: number | null;
  /** The same since the first of the month. */
  month_usd: number | null;
  /** The same as far as prices are known. */
  known_today_usd: number | null;
  known_month_usd: number | null;
  /** One for each reason; empty where today's amount has not fallen since it was shown. */
  credits: ICredit[];
  /** What the user may spend in a month; null where no budget is set. */
  budget_usd: number | null;
  /** `user:ann`, `group:research` or `project:nlp`; empty where it is not said. */
  payer: string;
  /** What of `usd` was spent on time with work in it, and without; the rest is start and stop. */
  used_usd: number | null;
  idle_usd: number | null;
  /** All that bind the server, the one that is reached first at the front. */
  limits: ILimit[];
  /** Null where the server has had no workers; all sums but those of the user are without them. */
  workers: IWorkersCost | null;
}

/** What all workers of a server cost, those that have ended included. */
export interface IWorkersCost {
  /** Workers that have not ended. */
  count: number;
  /** Those of them that have an instance, which is paid. */
  running: number;
  /** As in `ICost`. */
  usd: number | null;
  usd_per_hour: number | null;
  known_usd: number | null;
  known_usd_per_hour: number | null;
  as_of: string;
}

/** With disks and address. */
export interface IHourlyPrice {
  usd_per_hour: number;
  market: 'spot' | 'on-demand';
}

export interface IPriceChange {
  /** Against what was asked for first, against the instance before, or of the same instance. */
  why: 'start' | 'move' | 'rise';
  at: string;
  before: IHourlyPrice;
  now: IHourlyPrice;
  /** Of a move: what was asked for first, as the user was shown it. */
  asked: IHourlyPrice | null;
}

/** How much less than was shown today costs for one reason. */
export interface ICredit {
  usd: number;
  why: 'free-hour' | 'earlier-end' | 'correction';
  at: string;
}

/** Amounts in USD, USD per hour, GPU-hours or servers: in the unit of its kind. */
export interface ILimit {
  /** `user`, `group`, `project` or `hub`. */
  scope: string;
  name: string;
  kind: string;
  percent: number;
  threshold: number;
  /** Null for the hub: what all users together may spend is not said. */
  limit: number | null;
  used: number | null;
  /** Not all that is used has a known price: `used` and `percent` are lower bounds. */
  at_least: boolean;
  /** Length of the window. */
  days: number | null;
  /** The first day on which more is left. */
  renews: string | null;
  /** Of a window or a credit: the day since which `threshold` has been passed. */
  passed_on: string | null;
  /** When nothing is left at the present rate; null if it renews before. */
  reached_at: string | null;
  /** Whether the server stops then. */
  stops: boolean;
  /** When the server stops, once that is announced. */
  stop_at: string | null;
}
