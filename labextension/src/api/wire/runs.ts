/** Runs: notebooks and scripts that are executed on machines of their own. */

/** One run, as its owner sees it. */
export interface IRunSummary {
  number: number;
  path: string;
  profile_name: string;
  state: 'queued' | 'starting' | 'running' | 'ended';
  /** Why it waits, what it does, or how it ended. */
  message: string;
}

/** `GET runs` and `POST runs`. */
export interface IRunsAnswer {
  runs: IRunSummary[];
}
