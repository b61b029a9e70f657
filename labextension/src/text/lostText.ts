/** Why a variable or a kernel of a session did not come back, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

/** Why a variable was not saved or restored; a later server may know more codes. */
export function lostText(code: string, trans: TranslationBundle): string {
  switch (code) {
    default:
      return trans.__('could not be saved');
  }
}

/** Why a kernel is not back, or not all of it, as a sentence; empty where all is well. */
export function kernelText(code: string, trans: TranslationBundle): string {
  switch (code) {
    case '':
      return '';
    case 'busy':
      return trans.__('A cell was running: its variables were not saved.');
    case 'no-extension':
      return trans.__('This kernel cannot save its variables.');
    case 'not-python':
      return trans.__('Only Python kernels can save their variables.');
    case 'timed-out':
      return trans.__('There was not enough time for all variables.');
    case 'no-space':
      return trans.__('There was not enough space in your home for all variables.');
    case 'died':
      return trans.__('The kernel ended before all was done.');
    case 'notebook-gone':
      return trans.__('The notebook is no longer there.');
    case 'kernel-spec-gone':
      return trans.__('Its kernel is not installed on this machine.');
    case 'kernel-failed':
      return trans.__('Its kernel did not start.');
    case 'damaged':
      return trans.__('What was saved of it cannot be read.');
    default:
      return trans.__('It did not come back: %1.', code);
  }
}
