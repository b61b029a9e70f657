/** When the server counts as idle, and what follows. */

import type { ISentence } from './sentence.js';

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
