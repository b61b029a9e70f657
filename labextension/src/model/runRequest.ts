/** What the dialog "Run on…" asks for. Pure. */

import type { IHardwareChoice } from '../api/wire/index.js';

/** The fields as they are typed. */
export interface IRunForm {
  /** Slug; null where none can be chosen. */
  profile: string | null;
  parameters: readonly IParameterRow[];
  maxUsd: string;
  deadlineHours: string;
  notify: boolean;
}

export interface IParameterRow {
  name: string;
  value: string;
  /** The value in the notebook, which need not be sent; null for a row that was added. */
  initial: string | null;
}

/** The body of `POST runs`. */
export interface IRunBody {
  path: string;
  profile: string;
  parameters: Record<string, string>;
  max_usd: number | null;
  deadline_seconds: number | null;
  notify: boolean;
}

export type RunProblem =
  | { field: 'profile' | 'maxUsd' | 'deadlineHours' }
  | { field: 'parameter'; name: string; why: 'name' | 'twice' };

const SECONDS_PER_HOUR = 3600;

/** What is wrong with the first field that is; null where nothing is. */
export function problemOf(form: IRunForm): RunProblem | null {
  if (!form.profile) {
    return { field: 'profile' };
  }
  const names = new Set<string>();
  for (const { name, value, initial } of form.parameters) {
    if (initial === null && name.trim() === '' && value.trim() === '') {
      continue;
    }
    if (!/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name.trim())) {
      return { field: 'parameter', name: name.trim(), why: 'name' };
    }
    if (names.has(name.trim())) {
      return { field: 'parameter', name: name.trim(), why: 'twice' };
    }
    names.add(name.trim());
  }
  for (const field of ['maxUsd', 'deadlineHours'] as const) {
    if (form[field].trim() !== '' && positive(form[field]) === null) {
      return { field };
    }
  }
  return null;
}

/** The body for a form without a problem: parameters that were changed or added. */
export function bodyOf(path: string, form: IRunForm): IRunBody {
  const hours = positive(form.deadlineHours);
  const changed = form.parameters.filter(
    ({ name, value, initial }) => name.trim() !== '' && value.trim() !== initial
  );
  return {
    path,
    profile: form.profile ?? '',
    parameters: Object.fromEntries(changed.map(({ name, value }) => [name.trim(), value])),
    max_usd: positive(form.maxUsd),
    deadline_seconds: hours === null ? null : hours * SECONDS_PER_HOUR,
    notify: form.notify
  };
}

/** What to select: the first that is available, else the first that may be chosen. */
export function selected(choices: readonly IHardwareChoice[]): IHardwareChoice | null {
  const may = choices.filter(({ refusal }) => refusal === '');
  return may.find(choice => choice.is_available) ?? may[0] ?? null;
}

/** For how many hours the cap lasts at this price; null where either is unknown or free. */
export function hoursOfCap(maxUsd: string, usdPerHour: number | null): number | null {
  const cap = positive(maxUsd);
  return cap === null || !usdPerHour ? null : cap / usdPerHour;
}

function positive(typed: string): number | null {
  const number = typed.trim() === '' ? NaN : Number(typed);
  return Number.isFinite(number) && number > 0 ? number : null;
}
