/**
 * The answers of `GET {base}/ec2spawner/api/status`, as `ec2spawner/wire` defines them.
 *
 * Instants are ISO 8601 in UTC; durations are seconds; prices are USD/hour; memory is MiB;
 * shares of a whole are percent, 0-100. `null` is unknown, never zero.
 */

export interface ICost {
  /** Cost so far, at `as_of`. */
  usd: number | null;
  usd_per_hour: number | null;
  as_of: string;
  /** When billing began. */
  since: string;
  /** True unless the figure comes from a bill. */
  estimate: boolean;
  market: 'spot' | 'on-demand' | null;
  on_demand_usd_per_hour: number | null;
  price_source: string;
}

export interface IGpuSample {
  index: number;
  name: string;
  use_percent: number | null;
  memory_used_mib: number | null;
  memory_total_mib: number | null;
  temperature_c: number | null;
  power_w: number | null;
}

export interface ITelemetry {
  at: string;
  gpu_source: 'nvml' | 'simulated' | 'none';
  gpus: IGpuSample[];
  /** Of all cores together. */
  cpu_percent: number | null;
  memory_used_mib: number | null;
  memory_total_mib: number | null;
}

export interface IIdlePolicy {
  server_seconds: number;
  user_may_extend_seconds: number;
}

export interface IIdleness {
  /** Since when nothing works; null while something does. */
  idle_since: string | null;
  busy_because: string;
  /** When the server will be stopped if nothing happens. */
  stop_at: string | null;
  warn_at: string | null;
  /** The same for people, without numbers that tick. */
  sentence: string;
}

export interface IStop {
  reason: string;
  /** For people. */
  message: string;
}

export interface INotebookStatus {
  /** The server's clock: the browser counts down against this, not against its own. */
  now: string;
  /** True where an agent stands behind this server, so that cost, extend and stop exist. */
  managed: boolean;
  /** False for a person with whom the server is only shared. */
  can_control: boolean;
  agent_connected: boolean;
  cost: ICost | null;
  profile: string;
  instance_type: string;
  idle_policy: IIdlePolicy | null;
  idleness: IIdleness | null;
  extended_until: string | null;
  telemetry: ITelemetry | null;
  stop: IStop | null;
  hub_reachable: boolean;
  /** Which disk is full, and what to do; empty while none is. */
  disk_full: string;
}
