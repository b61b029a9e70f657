/** The status of the server: the answer that holds all of the others. */

import type { ICost } from './cost.js';
import type { IIdlePolicy, IIdleness, IKeepChoice } from './idle.js';
import type { ISentence } from './sentence.js';
import type { ISleepProgress, IWake } from './sleep.js';
import type { IStop } from './stop.js';
import type { IDiskUse, ITelemetry } from './telemetry.js';

/** A message of an admin. */
export interface IAdminMessage {
  id: string;
  text: string;
}

/** The reply to a button. */
export interface IReply {
  ok: boolean;
  /** Why not, or what was granted instead; null where it was done as asked. */
  sentence: ISentence | null;
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
    | 'scheduled-event'
    | 'session'
    | 'price'
    | 'credit';
  level: 'success' | 'info' | 'warning' | 'error';
  title: ISentence;
  details: ISentence[];
  /** Why the server is being stopped, where `since` does not say it. */
  stop: IStop | null;
  /** What it warns of happens then. */
  until: string | null;
  /** Since when the server has been idle, where that is why. */
  since: string | null;
  /** The main one first. */
  actions: ('keep' | 'sleep' | 'stop' | 'cell' | 'panel' | 'continue')[];
}

/** What AWS has announced of an instance, days in advance. */
export interface IScheduledEvent {
  code:
    | 'instance-reboot'
    | 'instance-retirement'
    | 'instance-stop'
    | 'system-maintenance'
    | 'system-reboot';
  /** When it happens at the earliest. */
  not_before: string;
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
  /** Of the admin or service that keeps it on until then; empty for its user. */
  extended_by: string;
  /** The nearest first; empty where the server is not kept on. */
  keep: IKeepChoice[];
  telemetry: ITelemetry | null;
  stop: IStop | null;
  hub_reachable: boolean;
  full_disks: ISentence[];
  disks: IDiskUse[];
  /** Runs that have ended and whose result is not in the home yet. */
  undelivered_runs: number;
  /** When AWS reclaims this spot instance; null where it has not announced that. */
  interruption_at: string | null;
  /** When AWS began to recommend leaving this spot instance; null where it does not. */
  rebalance_at: string | null;
  /** What AWS does with this instance; null where it has announced nothing. */
  scheduled_event: IScheduledEvent | null;
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
