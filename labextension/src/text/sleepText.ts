/** A session that is saved before a stop, and one that wakes, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type {
  ILostVariable,
  INotebookStatus,
  ISleepProgress,
  IStop,
  IWake,
  IWokenKernel
} from '../api/wire/index.js';
import { bytes, timeOfDay } from './format.js';
import { differenceText, kernelText, lostText, oldValuesText, unsavableText } from './lostText.js';

/** What came back of one notebook or console. */
export interface IWokenText {
  /** The notebook's path, to open it; empty for a console. */
  path: string;
  name: string;
  /** Such as `9 of 12 variables`. */
  done: string;
  /** Why it is not back, or not all of it; empty where all is well. */
  problem: string;
  /** What is not back, or not as it was: such as `loader: worker processes`. */
  lost: string[];
  /** How many more did not come back, in words; empty for none. */
  more: string;
}

export interface IWakeText {
  isDone: boolean;
  headline: string;
  /** How far it is, in percent; null where that is not known, or done. */
  percent: number | null;
  kernels: IWokenText[];
  /** How many more notebooks there were, in words; empty for none. */
  more: string;
}

/** Whether an idle server's session is saved before the stop. */
export function sleeps(status: INotebookStatus | null): boolean {
  return status?.idle_policy?.then === 'sleep' && status.files_kept;
}

/** Whether the server continues elsewhere after this stop. */
export function continues(stop: IStop | null | undefined): boolean {
  return stop?.sleep === 'interruption' || stop?.sleep === 'hardware';
}

/** Whether it will, once AWS has reclaimed its instance; the session is saved before. */
export function continuesSoon(status: INotebookStatus | null): boolean {
  return Boolean(status?.interruption_at && !status.stop && status.continues && status.files_kept);
}

export function wakeText(wake: IWake, trans: TranslationBundle): IWakeText {
  const { kernels } = wake;
  const expected = sum(kernels.map(kernel => kernel.expected));
  const back = sum(kernels.map(kernel => kernel.variables));
  const later = sum(kernels.map(kernel => kernel.later));
  const isDone = wake.state === 'done';
  const unnamed = Math.max(0, wake.kernel_count - kernels.length);
  return {
    isDone,
    headline: isDone ? doneText(wake, trans) : wakingText(kernels, trans),
    percent: isDone || expected === 0 ? null : Math.min(100, (100 * (back + later)) / expected),
    kernels: kernels.map(kernel => kernelLine(kernel, trans)),
    more: unnamed ? trans._n('and %1 more notebook', 'and %1 more notebooks', unnamed, unnamed) : ''
  };
}

/** What has come back, in a sentence without names: a screen reader reads it once. */
function doneText(wake: IWake, trans: TranslationBundle): string {
  const { kernels } = wake;
  const back = sum(kernels.map(({ variables, later }) => variables + later));
  const lost = sum(kernels.map(kernel => kernel.lost_count));
  const failed = kernels.filter(kernel => kernel.state === 'failed').length;
  const parts = [
    trans._n(
      'Your session is back: %1 variable.',
      'Your session is back: %1 variables.',
      back,
      back
    ),
    wake.again ? olderSentence(Date.parse(wake.slept_at), trans) : '',
    lost ? trans._n('%1 did not come back.', '%1 did not come back.', lost, lost) : '',
    failed
      ? trans._n('%1 notebook did not wake.', '%1 notebooks did not wake.', failed, failed)
      : ''
  ];
  return parts.filter(Boolean).join(' ');
}

/** Of a session that had been woken before, and was not saved again. */
export function olderSentence(savedAt: number, trans: TranslationBundle): string {
  return trans.__(
    'Variables are as saved at %1; what changed later is lost.',
    timeOfDay(savedAt, Date.now())
  );
}

function wakingText(kernels: IWokenKernel[], trans: TranslationBundle): string {
  const now = kernels.find(({ state }) => state === 'restoring' || state === 'starting');
  if (!now) {
    return trans.__('Waking your session');
  }
  const name = nameOf(now, trans);
  return now.state === 'restoring'
    ? trans.__('Waking %1: %2', name, progressText(now, trans))
    : trans.__('Starting the kernel of %1', name);
}

function kernelLine(kernel: IWokenKernel, trans: TranslationBundle): IWokenText {
  const unnamed = Math.max(0, kernel.lost_count - kernel.lost.length);
  return {
    path: kernel.path,
    name: nameOf(kernel, trans),
    done: stateText(kernel, trans),
    problem: [
      kernel.values_of
        ? oldValuesText(kernel.code, timeOfDay(Date.parse(kernel.values_of), Date.now()), trans)
        : kernelText(kernel.code, trans),
      kernel.state === 'done' ? interruptedText(kernel.interrupted_cell, trans) : ''
    ]
      .filter(Boolean)
      .join(' '),
    lost: [
      ...kernel.lost.map(each => lostLine(each, trans)),
      ...kernel.differing.map(({ name, code, detail }) => {
        const difference = `${name}: ${differenceText(code, trans)}`;
        return code === 'changed' && detail ? `${difference} (${detail})` : difference;
      }),
      ...kernel.unkept.map(what => trans.__('Not kept: %1', what))
    ],
    more: unnamed ? trans._n('and %1 more', 'and %1 more', unnamed, unnamed) : ''
  };
}

/** What keeps a kernel busy without being a cell, such as a widget, has no id of one. */
function interruptedText(cellId: string | null | undefined, trans: TranslationBundle): string {
  if (typeof cellId !== 'string') {
    return '';
  }
  return cellId
    ? trans.__('The cell that was running was interrupted: run it again.')
    : trans.__('What was running was interrupted.');
}

function lostLine(
  { name, code, detail, kept_of: kept }: ILostVariable,
  trans: TranslationBundle
): string {
  const kind = code === 'not-storable' ? unsavableText(detail, trans) : '';
  const line = `${name}: ${kind || lostText(code, trans)}`;
  return kept
    ? trans.__(
        '%1. Its value of %2 is kept: %3',
        line,
        timeOfDay(Date.parse(kept), Date.now()),
        `%wake ${name}`
      )
    : line;
}

function stateText(kernel: IWokenKernel, trans: TranslationBundle): string {
  switch (kernel.state) {
    case 'waiting':
      return trans.__('waiting');
    case 'starting':
      return trans.__('starting its kernel');
    case 'failed':
      return trans.__('not back');
    case 'restoring':
      return progressText(kernel, trans);
    case 'done':
      return countText(kernel, trans);
  }
}

/** `9 of 12 variables, 1.8 of 3.1 GB`; without the sizes where they are unknown. */
function progressText(kernel: IWokenKernel, trans: TranslationBundle): string {
  const { size_bytes: size, expected_bytes: expected } = kernel;
  const count = countText(kernel, trans);
  return size && expected
    ? trans.__('%1, %2', count, partOf(bytes(size), bytes(expected), trans))
    : count;
}

/** `1.8 of 3.1 GB`, `40 MB of 3.1 GB`: a unit that both have is named once. */
function partOf(part: string, whole: string, trans: TranslationBundle): string {
  const [number, unit] = part.split(/\s/);
  return trans.__('%1 of %2', whole.split(/\s/)[1] === unit ? number : part, whole);
}

/** `9 of 12 variables`, `12 variables`, `12 variables, 2 of them when first used`. */
function countText(kernel: IWokenKernel, trans: TranslationBundle): string {
  const { variables, later, expected } = kernel;
  const back = variables + later;
  const count =
    back < expected
      ? trans.__('%1 of %2 variables', back, expected)
      : trans._n('%1 variable', '%1 variables', back, back);
  return later && kernel.state === 'done'
    ? trans.__('%1, %2 of them when first used', count, later)
    : count;
}

function nameOf({ path, kernel_name: kernel }: IWokenKernel, trans: TranslationBundle): string {
  return path || trans.__('Console (%1)', kernel);
}

/** How far saving has come, before a stop; empty where nothing is saved. */
export function savingText(progress: ISleepProgress | null, trans: TranslationBundle): string {
  if (!progress) {
    return '';
  }
  const saved = trans.__(
    'Saving your variables: %1 so far, %2.',
    progress.variables,
    bytes(progress.size_bytes)
  );
  return progress.kernels > 1
    ? `${saved} ${trans.__('%1 of %2 notebooks are done.', progress.kernels_done, progress.kernels)}`
    : saved;
}

/** What is kept when the session sleeps. */
export function keptSentence(trans: TranslationBundle): string {
  return trans.__('Files and variables are kept; wake your session when you need it.');
}

/** The same of a stop that does not wait for a running cell. */
export function keptIfInterruptedSentence(trans: TranslationBundle): string {
  return trans.__(
    'Files are kept; so are variables, unless a running cell ignores its interrupt for 10 s.'
  );
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
