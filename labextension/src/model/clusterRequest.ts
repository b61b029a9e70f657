/** The cluster that a user wants, and the code that starts it. Pure. */

import type { Engine, IClusterStatus, IHardwareChoice } from '../api/wire/index.js';

export interface IClusterRequest {
  workers: number;
  /** Slug; empty for that of the server. */
  profile: string;
  engine: Engine;
}

/** How many workers are offered at first where there has been no cluster. */
const FIRST_WORKERS = 2;

/** The call of Python; a JSON text is one of Python. */
export function callOf({ workers, profile, engine }: IClusterRequest): string {
  const parts = [`${workers}`, profile && JSON.stringify(profile)];
  parts.push(engine === 'ray' ? '' : `engine="${engine}"`);
  return `ec2spawner.cluster(${parts.filter(Boolean).join(', ')})`;
}

/** The source of the cell that starts the cluster. */
export function cellOf(wanted: IClusterRequest): string {
  return `import ec2spawner\n\ncluster = ${callOf(wanted)}`;
}

/** The number of workers as typed; null unless it is a whole one from 1 to `most`. */
export function workersOf(typed: string, most: number): number | null {
  const number = /^\s*\d{1,3}\s*$/.test(typed) ? Number(typed) : 0;
  return number >= 1 && number <= most ? number : null;
}

/** What is offered at first: the server's last cluster as far as it is allowed still. */
export function firstRequest(
  status: IClusterStatus,
  choices: readonly IHardwareChoice[]
): IClusterRequest {
  const most = status.max_workers;
  const { last_workers: workers, last_profile: last, last_engine: engine } = status;
  const allowed = choices.filter(({ refusal }) => refusal === '');
  const chosen =
    allowed.find(({ profile }) => profile === (status.profile || last)) ??
    allowed.find(({ is_available: isAvailable }) => isAvailable) ??
    allowed.at(0);
  return {
    workers: Math.min(workers || FIRST_WORKERS, most),
    profile: chosen?.profile ?? '',
    engine: status.engine ?? engine ?? 'ray'
  };
}
