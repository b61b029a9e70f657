/**
 * The answers of `GET {base}/ec2spawner/api/status` and `history`, and what comes on the event
 * websocket, as `ec2spawner/wire` defines them.
 *
 * Instants are ISO 8601 in UTC; durations are seconds; prices are USD/hour; memory is MiB;
 * shares of a whole are percent, 0-100. `null` is unknown, never zero.
 */

/** The parameters of each sentence that a server may send, by its code. */
export interface ISentenceParameters {
  'kernel-running': { name: string };
  'kernel-starting': { name: string };
  'terminal-running': { name: string };
  'gpu-in-use': { name: string };
  'cpu-in-use': { name: string };
  'gpu-driver-silent': object;
  'gpu-driver-updated': object;
  'gpu-driver-forbidden': object;
  'gpu-driver-not-installed': object;
  'gpu-driver-not-loaded': object;
  'gpu-driver-failed': { detail: string };
  'home-full': { gib: number };
  'home-without-inodes': object;
  'system-disk-full': { gib: number };
  'system-disk-without-inodes': object;
  stopping: object;
  'stopping-by-admin': object;
  stops: object;
  sleeps: object;
  'session-saving': object;
  'session-moving': object;
  'server-moving': object;
  'spot-reclaim': object;
  'gpus-unreadable': object;
  'gpu-lost': { index: number };
  'gpu-memory-errors': { index: number };
  'gpu-xid': { index: number };
  'disk-full': object;
  'limit-share': { percent: number; scope: string; name: string };
  'limit-used-up': { scope: string; name: string };
  'limit-exceeded': { scope: string; name: string };
  'gpu-unused': { count: number };
  'admin-message': object;
  rebalance: object;
  'session-back': { count: number; kernels: number };
  'session-not-back': object;
  'documents-saved': object;
  'session-continues': object;
  'session-continues-soon': object;
  'server-continues': object;
  'server-continues-soon': object;
  'files-not-kept': object;
  'save-now': object;
  'files-kept': object;
  'session-sleeps': object;
  'files-lost': object;
  'max-age': { seconds: number };
  xid: { number: number };
  'replace-server': object;
  'contact-admin': object;
  'results-wrong': object;
  'replace-server-if-it-persists': object;
  'contact-admin-if-it-persists': object;
  'limit-amount': { kind: string; used: number; limit: number; at_least: boolean };
  'limit-forecast': { at: number };
  'limit-stops': { scope: string; name: string };
  'limit-runs': { kind: string; used: number; limit: number };
  'limit-no-start': object;
  'profile-without-gpu': { files_kept: boolean };
  'message-text': { text: string };
  'spot-may-end': object;
  'session-later': { count: number };
  'session-lost': { count: number };
  'session-older': { at: number };
  'extension-bounded': object;
  'limit-not-extended': { scope: string; name: string; at: number };
  'idle-time-bounded': { min_seconds: number; max_seconds: number; seconds: number };
  refused: { detail: string };
  'hub-silent': object;
  'hub-timeout': object;
  'agent-silent': object;
  'agent-gone': object;
  'not-managed': object;
  'owner-only': object;
  'not-stopping': object;
  'invalid-request': object;
}

/** What the server has to say, as a code with parameters; `text/sentenceText.ts` words it. */
export type ISentence = {
  [Code in keyof ISentenceParameters]: { code: Code; params: ISentenceParameters[Code] };
}[keyof ISentenceParameters];

export interface ICost {
  /** Cost so far, at `as_of`. */
  usd: number | null;
  usd_per_hour: number | null;
  /** The same as far as prices are known: lower bounds where those are null. */
  known_usd: number | null;
  known_usd_per_hour: number | null;
  /** What has no known price now: some of `instance`, `disk` and `address`. */
  unknown_prices_of: string[];
  as_of: string;
  /** When billing began. */
  since: string;
  /** True unless the figure comes from a bill. */
  estimate: boolean;
  market: 'spot' | 'on-demand' | null;
  on_demand_usd_per_hour: number | null;
  price_source: string;
  /** What the same time on demand would have cost more. */
  saved_usd: number | null;
  /** All servers of this user since midnight in the hub's time zone, this one included, at `as_of`. */
  today_usd: number | null;
  /** The same since the first of the month. */
  month_usd: number | null;
  /** The same as far as prices are known. */
  known_today_usd: number | null;
  known_month_usd: number | null;
  /** What the user may spend in a month; null where no budget is set. */
  budget_usd: number | null;
  /** `user:ann`, `group:research` or `project:nlp`; empty where it is not said. */
  payer: string;
  /** What of `usd` was spent on time with work in it, and without; the rest is start and stop. */
  used_usd: number | null;
  idle_usd: number | null;
  /** All that bind the server, the one that is reached first at the front. */
  limits: ILimit[];
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

/** Hours of the week in which another idle time counts. */
export interface IWorkingHours {
  /** 0 is Monday. */
  days: number[];
  /** Minutes after midnight where `timezone` is. */
  from_minute: number;
  to_minute: number;
  timezone: string;
  server_seconds: number;
}

/** 0 turns a rule off. */
export interface IIdlePolicy {
  /** What the user chose, or else what holds outside `working_hours`. */
  server_seconds: number;
  kernel_seconds: number;
  user_may_extend_seconds: number;
  max_age_seconds: number;
  /** Whether the session is saved before the stop. */
  then: 'sleep' | 'stop';
  silent_kernel_seconds: number;
  working_hours: IWorkingHours | null;
  /** The user may choose `server_seconds` from this */
  user_server_min_seconds: number;
  /** to this; 0 is no choice. */
  user_server_max_seconds: number;
  /** What the user chose: `working_hours` do not count then. */
  user_server_seconds: number | null;
}

export interface IIdleness {
  /** Null while something works. */
  idle_since: string | null;
  /** What keeps the server on; null while it is idle. */
  busy: ISentence | null;
  /** The notebook that keeps the server on, where it is one. */
  busy_path: string;
  /** When the server will be stopped if nothing happens. */
  stop_at: string | null;
  warn_at: string | null;
}

/** An instant until which the user may ask to keep the server on. */
export interface IKeepChoice {
  until: string;
  /** False where the server would not stop later than it does now. */
  changes: boolean;
}

/** A message of an admin. */
export interface IAdminMessage {
  id: string;
  text: string;
}

export interface IStop {
  reason: StopReason;
  /** The hub's own words, in English: the details of what `reason` leaves open. */
  message: string;
  /** Name of the admin or the service that asked for it, or empty. */
  by: string;
  /** Why the session's variables are saved first; null where they are not. */
  sleep: SleepTrigger | null;
}

/** Why a session is put to sleep. */
export type SleepTrigger = 'interruption' | 'idle' | 'user' | 'hardware';

/** How far saving the session's variables has come. */
export interface ISleepProgress {
  id: string;
  kernels: number;
  kernels_done: number;
  variables: number;
  size_bytes: number;
}

/** A variable that was not saved, or did not come back. */
export interface ILostVariable {
  name: string;
  type: string;
  /** Why; a later version may know more codes. */
  code: string;
  detail: string;
  /** When the value was saved that an earlier sleep has, and `%wake name` restores. */
  kept_of: string | null;
}

export interface IWokenKernel {
  /** The notebook's; empty for a console. */
  path: string;
  kernel_name: string;
  state: 'waiting' | 'starting' | 'restoring' | 'done' | 'failed';
  /** That are back, */
  variables: number;
  /** that are loaded when a cell first uses them, */
  later: number;
  /** and that were saved. */
  expected: number;
  lost: ILostVariable[];
  lost_count: number;
  /** Those that are back, but not in all as they were. */
  differing: ILostVariable[];
  /** Why the kernel itself is not back, or without variables; empty where all is well. */
  code: string;
  /** When its variables were saved, where they are older than the session. */
  values_of: string | null;
}

/** What came back of the session that slept. */
export interface IWake {
  id: string;
  slept_at: string;
  trigger: SleepTrigger;
  state: 'waking' | 'done';
  /** Whether it had been woken before: what has changed since it was saved is lost. */
  again: boolean;
  /** At most 20 of `kernel_count`. */
  kernels: IWokenKernel[];
  kernel_count: number;
}

/** One profile that the server could continue on. */
export interface IHardwareChoice {
  /** Its slug. */
  profile: string;
  name: string;
  /** Of what would be bought first. */
  usd_per_hour: number | null;
  market: 'spot' | 'on-demand' | null;
  /** False where it is sold out as far as is known. */
  is_available: boolean;
  /** Why no start of it is accepted now; empty where it is. */
  refusal: string;
  /** 0 is unknown. */
  memory_bytes: number;
  /** Of all GPUs together; 0 without one. */
  gpu_memory_bytes: number;
}

/** `GET hardware`. */
export interface IHardwareChoices {
  choices: IHardwareChoice[];
}

/** `POST continue`: how far a move to other hardware is. */
export interface IMove {
  state: 'none' | 'looking' | 'booting' | 'moving' | 'failed';
  profile_name: string;
  /** What happens now, or why it failed. */
  message: string;
}

export type StopReason =
  | 'user'
  | 'idle'
  | 'admin'
  | 'budget'
  | 'interruption'
  | 'max-age'
  | 'hub'
  | 'capacity'
  | 'quota'
  | 'failed'
  | 'lost';

/** The reply to a button. */
export interface IReply {
  ok: boolean;
  /** Why not, or what was granted instead; null where it was done as asked. */
  sentence: ISentence | null;
}

/** The hub's answer about a server that does not answer. */
export interface IServerEnd {
  /** Whether the server is ready now, perhaps started anew. */
  running: boolean;
  /** Whether it is about to run again, on another machine. */
  continues: boolean;
  /** Whether the next start can wake a session. */
  asleep: boolean;
  /** Why it was stopped; null where it was not. */
  stop: IStop | null;
  ended_at: string | null;
}

/** Something that a person should know now, for as long as it holds. */
export interface INotice {
  /** The same notice has the same id, also after a reload of the page. */
  id: string;
  kind:
    | 'idle'
    | 'stopping'
    | 'interruption'
    | 'message'
    | 'budget'
    | 'gpu'
    | 'disk-full'
    | 'smaller-profile'
    | 'rebalance'
    | 'session';
  level: 'info' | 'warning' | 'error';
  title: ISentence;
  details: ISentence[];
  /** Why the server is being stopped, where `since` does not say it. */
  stop: IStop | null;
  /** What it warns of happens then. */
  until: string | null;
  /** Since when the server has been idle, where that is why. */
  since: string | null;
  /** The main one first. */
  actions: ('keep' | 'stop' | 'panel')[];
}

/** On the event websocket, whenever a notice comes or goes: all that hold now. */
export interface INoticesEvent {
  now: string;
  notices: INotice[];
}

export interface INotebookStatus {
  /** The server's clock: the browser counts down against this, not against its own. */
  now: string;
  /** True where an agent stands behind this server, so that cost, extend and stop exist. */
  managed: boolean;
  /** False for a person with whom the server is only shared. */
  can_control: boolean;
  agent_connected: boolean;
  /** Whether the session can be saved on request. */
  can_sleep: boolean;
  cost: ICost | null;
  profile: string;
  instance_type: string;
  idle_policy: IIdlePolicy | null;
  idleness: IIdleness | null;
  extended_until: string | null;
  /** The nearest first; empty where the server is not kept on. */
  keep: IKeepChoice[];
  telemetry: ITelemetry | null;
  stop: IStop | null;
  hub_reachable: boolean;
  full_disks: ISentence[];
  /** When AWS reclaims this spot instance; null where it has not announced that. */
  interruption_at: string | null;
  /** When AWS began to recommend leaving this spot instance; null where it does not. */
  rebalance_at: string | null;
  /** Whether the server continues on another instance when AWS reclaims this one. */
  continues: boolean;
  /** False where the home ends with the instance. */
  files_kept: boolean;
  notices: INotice[];
  /** Where the hub answers an `IServerEnd` when this server no longer answers; or empty. */
  end_url: string;
  /** What an admin wants the user to read now; it is shown as a notice. */
  message: IAdminMessage | null;
  /** While the session's variables are saved before a stop; null otherwise. */
  saving: ISleepProgress | null;
  /** What came back of the session that slept; null where none did. */
  wake: IWake | null;
}
