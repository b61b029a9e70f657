/** Sessions that are saved, that wake, and that move to other hardware. */

/** Why a session is put to sleep. */
export type SleepTrigger = 'interruption' | 'idle' | 'limit' | 'user' | 'hardware';

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
  /** Of those that are back, while it is restoring, */
  size_bytes: number;
  /** and of those that were saved; 0 where that is unknown. */
  expected_bytes: number;
  lost: ILostVariable[];
  lost_count: number;
  /** Those that are back, but not in all as they were. */
  differing: ILostVariable[];
  /** What of the kernel's process is not as it was, in the kernel's words. */
  unkept: string[];
  /** Why the kernel itself is not back, or without variables; empty where all is well. */
  code: string;
  /** When its variables were saved, where they are older than the session. */
  values_of: string | null;
  /** Id of the cell that was interrupted, empty where that is unknown; null where none was. */
  interrupted_cell: string | null;
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
  /** The server's own profile, for a run on a machine of its own. */
  own?: IHardwareChoice | null;
  /** Whether a stop would keep the machine's own disk, and a move deletes it. */
  deletes_disk?: boolean;
  /** Whether anybody is notified of the end of a run that asks for that. */
  reports_ends: boolean;
}

/** `POST continue`: how far a move to other hardware is. */
export interface IMove {
  state: 'none' | 'looking' | 'booting' | 'moving' | 'failed';
  profile_name: string;
  /** What happens now, or why it failed. */
  message: string;
}
