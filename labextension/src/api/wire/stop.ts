/** Why a server ends or has ended. */

import type { SleepTrigger } from './sleep.js';

export interface IStop {
  reason: StopReason;
  /** The hub's own words, in English: the details of what `reason` leaves open. */
  message: string;
  /** Name of the admin or the service that asked for it, or empty. */
  by: string;
  /** Why the session's variables are saved first; null where they are not. */
  sleep: SleepTrigger | null;
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
