/** The workers of this server. */

export interface IClusterAnswer {
  status: IClusterStatus;
  /** Of the action `price`. */
  price: IClusterPrice | null;
}

/** USD/hour of all workers together. */
export interface IClusterPrice {
  profile_name: string;
  workers: number;
  /** What would be bought first; empty if EC2 offers nothing of the kind now. */
  instance_type: string;
  market: 'spot' | 'on-demand' | null;
  usd_per_hour: number | null;
  /** Bought as the dearest that the profile and its limits allow. */
  max_usd_per_hour: number | null;
}

export type Engine = 'ray' | 'torchrun';

export interface IClusterStatus {
  /** How many workers the user wants; 0 without a cluster. */
  wanted: number;
  /** How many there may be; 0 where this server may have no cluster, or this user may not start it. */
  max_workers: number;
  engine: Engine | null;
  /** The workers' slug. */
  profile: string;
  profile_name: string;
  workers: IWorkerStatus[];
  /** Why there are fewer workers than wanted, or why the hub stopped them. */
  problem: string;
  /** Whether no more workers are started until the user asks again. */
  has_given_up: boolean;
  /** How many the cluster had before the server's last stop; 0 for none. */
  last_workers: number;
  /** Slug. */
  last_profile: string;
  last_profile_name: string;
  last_engine: Engine | null;
}

export interface IWorkerStatus {
  number: number;
  state: 'waiting' | 'starting' | 'ready' | 'ending';
  /** The last step of its start, or why it ends. */
  message: string;
  /** Empty while it has no instance. */
  instance_type: string;
  zone: string;
  market: 'spot' | 'on-demand' | null;
  idle_since: string | null;
  /** Average use of its GPUs; null if none is measured. */
  gpu_percent: number | null;
  /** When EC2 reclaims its instance; null without a notice. */
  interruption_at: string | null;
  usd_per_hour: number | null;
  /** Cost so far, an estimate. */
  usd: number | null;
}
