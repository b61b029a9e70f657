import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

/** What this server costs, for other extensions. */
export interface IServerCost {
  /** The figures now; null where they are unknown, as on a server without an agent. */
  readonly current: IServerCost.IFigures | null;

  /** Emitted when a figure may have changed: about once a second while the page is visible. */
  readonly changed: ISignal<IServerCost, void>;
}

export namespace IServerCost {
  /** In USD; null is unknown, never zero. */
  export interface IFigures {
    /** What this server and the workers of its cluster have cost so far. */
    usd: number | null;
    /** The price of all of them now, in USD/hour. */
    usdPerHour: number | null;
    /** True unless `usd` comes from a bill. */
    isEstimate: boolean;
    market: 'spot' | 'on-demand' | null;
    /** What all servers of this user cost since the first of the month (UTC). */
    monthUsd: number | null;
    /** What the user may spend in a month; null where no budget is set. */
    budgetUsd: number | null;
  }
}

export const IServerCost = new Token<IServerCost>(
  'ec2spawner-lab:IServerCost',
  'What this server costs: so far, per hour, this month, and the budget.'
);
