/** What the status of a cluster means. Pure. */

import type { IClusterStatus, IWorkerStatus } from '../api/wire/index.js';
import type { IAmount } from './state.js';

/** Of one cluster, whatever the hub allows. */
export const MAX_WORKERS = 64;

export type WorkerState = 'waiting' | 'joining' | 'busy' | 'idle' | 'reclaimed' | 'ending';

export function workerState(worker: IWorkerStatus): WorkerState {
  if (worker.state === 'ending') {
    return 'ending';
  }
  if (worker.interruption_at !== null) {
    return 'reclaimed';
  }
  switch (worker.state) {
    case 'waiting':
      return 'waiting';
    case 'starting':
      return 'joining';
    case 'ready':
      return worker.idle_since === null ? 'busy' : 'idle';
  }
}

/** Those that the engine can use now. */
export function joined(status: IClusterStatus): IWorkerStatus[] {
  return status.workers.filter(({ state }) => state === 'ready');
}

/** Whether workers are on their way, or on their way out. */
export function isChanging(status: IClusterStatus): boolean {
  const isMissing = joined(status).length < status.wanted && !status.has_given_up;
  return (
    isMissing ||
    status.workers.some(worker => workerState(worker) !== 'busy' && workerState(worker) !== 'idle')
  );
}

/** Whether there is anything to say: a cluster, why there is none any more, or one to start again. */
export function hasCluster(status: IClusterStatus): boolean {
  return isPresent(status) || status.problem !== '' || status.last_workers > 0;
}

/** Whether there is a cluster, if only its end. */
export function isPresent(status: IClusterStatus): boolean {
  return status.wanted > 0 || status.workers.length > 0;
}

/** Whether one can be started: it is allowed, and nothing is left of an earlier one. */
export function mayStart(status: IClusterStatus): boolean {
  return status.max_workers > 0 && !isPresent(status);
}

/** How many workers something runs on. */
export function busyWorkers(status: IClusterStatus): number {
  return status.workers.filter(each => workerState(each) === 'busy').length;
}

/** What the workers cost an hour; a lower bound where a price is unknown, null where all are. */
export function rateOf(workers: readonly IWorkerStatus[]): IAmount | null {
  const paid = workers.filter(worker => worker.instance_type !== '' && worker.state !== 'ending');
  const known = paid.map(each => each.usd_per_hour).filter(usd => usd !== null);
  return known.length === 0
    ? null
    : { usd: known.reduce((a, b) => a + b, 0), isLowerBound: known.length < paid.length };
}
