/** Runs on machines of their own, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IHardwareChoice, IRunSummary } from '../api/wire/index.js';
import { hoursOfCap, type RunProblem } from '../model/runRequest.js';
import { duration, usdPerHour } from './format.js';
import { hardwareText, type IHardwareText } from './hardwareText.js';

const MS_PER_HOUR = 3_600_000;

/** One line of the dialog. Memory in use on this server says nothing of what the run needs. */
export function runHardwareText(
  choice: IHardwareChoice,
  isOwn: boolean,
  trans: TranslationBundle
): IHardwareText {
  const text = hardwareText(choice, null, trans);
  return isOwn ? { ...text, name: trans.__('%1 (as this server)', text.name) } : text;
}

/** What the run costs on this hardware, and for how long its cap lasts. */
export function runPriceText(
  choice: IHardwareChoice | null,
  maxUsd: string,
  trans: TranslationBundle
): string {
  if (!choice) {
    return '';
  }
  if (choice.usd_per_hour === null) {
    return trans.__('The price is unknown.');
  }
  const price = trans.__('About %1 while it runs (estimate).', usdPerHour(choice.usd_per_hour));
  const hours = hoursOfCap(maxUsd, choice.usd_per_hour);
  return hours === null
    ? price
    : trans.__('%1 The cap lasts for about %2.', price, duration(hours * MS_PER_HOUR, trans));
}

/** What to change in the form. */
export function runProblemText(problem: RunProblem, trans: TranslationBundle): string {
  switch (problem.field) {
    case 'profile':
      return trans.__('Choose the hardware.');
    case 'maxUsd':
      return trans.__('Cost cap: write a number of USD above 0, such as 5, or leave it empty.');
    case 'deadlineHours':
      return trans.__('Deadline: write a number of hours above 0, such as 8, or leave it empty.');
    case 'parameter':
      if (problem.why === 'twice') {
        return trans.__('Parameter %1: it is there twice. Remove one.', problem.name);
      }
      return problem.name === ''
        ? trans.__('Parameters: one has a value and no name. Name it, or clear its value.')
        : trans.__(
            'Parameter %1: write a name of a variable in Python, such as learning_rate.',
            problem.name
          );
  }
}

/** Which run was submitted, and where its result will be. */
export function submittedText(run: IRunSummary, trans: TranslationBundle): string {
  return trans.__(
    'Run %1 of %2 is queued. Its result will be in %3.',
    run.number,
    fileName(run.path),
    resultPath(run)
  );
}

/** Relative to the home, as `ec2spawner/runs` names it. */
export function resultPath({ path, number }: Pick<IRunSummary, 'path' | 'number'>): string {
  const [, stem, suffix] = /^(.+)\.(\w+)$/.exec(fileName(path)) ?? ['', fileName(path), ''];
  return `runs/${stem}-${number}.${suffix === 'py' ? 'log' : 'ipynb'}`;
}

/** The last part of a path. */
export function fileName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
