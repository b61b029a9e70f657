/** What the instance measures of itself. */

import type { ISentence } from './sentence.js';

export type SlowedBy = 'power' | 'heat' | 'hardware' | 'sync';

export interface IMigSlice {
  index: number;
  /** As NVIDIA names its size: `1g.5gb`. */
  profile: string;
  use_percent: number | null;
  memory_used_mib: number | null;
  memory_total_mib: number | null;
}

export interface IGpuSample {
  index: number;
  name: string;
  use_percent: number | null;
  memory_used_mib: number | null;
  memory_total_mib: number | null;
  temperature_c: number | null;
  power_w: number | null;
  power_limit_w: number | null;
  clock_mhz: number | null;
  clock_max_mhz: number | null;
  /** What holds the clocks down now. */
  slowed_by: SlowedBy[];
  /** Memory errors since the driver was loaded. */
  ecc_corrected: number | null;
  ecc_uncorrected: number | null;
  /** The last critical error that the driver reported, by NVIDIA's number. */
  xid: number | null;
  xid_at: string | null;
  /** The GPU was there and does not answer any more. */
  lost: boolean;
  mig: IMigSlice[];
}

/** A kernel, a terminal or another program of the user, with all that it has started. */
export interface IWorker {
  kind: 'kernel' | 'terminal' | 'program';
  name: string;
  pid: number;
  kernel_id: string;
  /** The name of Jupyter's terminal, where it is one. */
  terminal: string;
  /** Percent of one core. */
  cpu_percent: number | null;
  memory_mib: number | null;
  /** Indices of the GPUs that it has memory on. */
  gpus: number[];
  /** Of the GPU that it uses most. */
  gpu_percent: number | null;
  gpu_memory_mib: number | null;
}

/** How full one disk of the machine is. */
export interface IDiskUse {
  kind: 'home' | 'system' | 'data' | 'scratch';
  path: string;
  used_percent: number;
  free_bytes: number;
  /** Null where the file system has no fixed number of them. */
  inodes_percent: number | null;
  /** False for a data set that is mounted for reading. */
  is_writable: boolean;
}

export interface ITelemetry {
  at: string;
  gpu_source: 'nvml' | 'simulated' | 'none';
  /** Why GPUs that are there cannot be read; null where nothing is wrong. */
  gpu_error: ISentence | null;
  gpus: IGpuSample[];
  /** Of all cores together. */
  cpu_percent: number | null;
  memory_used_mib: number | null;
  memory_total_mib: number | null;
  cpu_count: number | null;
  /** Of the file system that holds the home. */
  disk_used_mib: number | null;
  disk_total_mib: number | null;
  disk_read_mib_per_s: number | null;
  disk_write_mib_per_s: number | null;
  network_in_mib_per_s: number | null;
  network_out_mib_per_s: number | null;
  /** Who uses the GPUs and the CPU, the busiest first. */
  workers: IWorker[];
}

export interface IGpuHistory {
  index: number;
  name: string;
  use_percent: (number | null)[];
  memory_percent: (number | null)[];
}

/** The last hour, oldest first; all lists are as long as `at`. */
export interface IHistory {
  step_seconds: number;
  /** The end of each step, in seconds since the epoch by the server's clock. */
  at: number[];
  cpu_percent: (number | null)[];
  memory_percent: (number | null)[];
  gpus: IGpuHistory[];
}
