/** Why a variable or a kernel of a session did not come back, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

/** Why a variable was not saved or restored; a later server may know more codes. */
export function lostText(code: string, trans: TranslationBundle): string {
  switch (code) {
    case 'busy':
      return trans.__('the kernel was busy');
    case 'crashed':
      return trans.__('its process crashed');
    case 'damaged':
      return trans.__('its file is damaged');
    case 'deadline':
      return trans.__('the time was over');
    case 'failed':
      return trans.__('saving or loading it failed');
    case 'import-failed':
      return trans.__('it cannot be imported here');
    case 'library-version':
      return trans.__('its library has another version here');
    case 'memory':
      return trans.__('it needs more memory than there is');
    case 'needs':
      return trans.__('it needs something that could not be restored');
    case 'no-dill':
      return trans.__('its environment has no dill');
    case 'no-space':
      return trans.__('the disk has no room for it');
    case 'not-restored':
      return trans.__('it was not restored since it was saved');
    case 'not-restorable':
      return trans.__('it could not be loaded again');
    case 'not-storable':
      return trans.__('it cannot be saved');
    case 'python-version':
      return trans.__('another version of Python saved it');
    case 'timed-out':
      return trans.__('it took too long');
    case 'too-deep':
      return trans.__('it is nested too deeply');
    default:
      return trans.__('it could not be saved');
  }
}

/** Of a kind that no sleep can save, as the kernel names it; empty where that is not one of those. */
export function unsavableText(kind: string, trans: TranslationBundle): string {
  switch (kind) {
    case 'IPython itself':
      return trans.__('IPython itself cannot be saved');
    case 'a client of AWS':
      return trans.__('a client of AWS cannot be saved');
    case 'a coroutine':
      return trans.__('a coroutine cannot be saved');
    case 'a database connection':
      return trans.__('a database connection cannot be saved');
    case 'a finalizer':
      return trans.__('a finalizer cannot be saved');
    case 'a generator':
      return trans.__('a generator cannot be saved');
    case 'a network connection':
      return trans.__('a network connection cannot be saved');
    case 'a pool of processes':
      return trans.__('a pool of processes cannot be saved');
    case 'a pool of threads':
      return trans.__('a pool of threads cannot be saved');
    case 'a pool of workers':
      return trans.__('a pool of workers cannot be saved');
    case 'a process':
      return trans.__('a process cannot be saved');
    case 'a running function':
      return trans.__('a running function cannot be saved');
    case 'a task':
      return trans.__('a task cannot be saved');
    case 'a temporary folder':
      return trans.__('a temporary folder cannot be saved');
    case 'a thread':
      return trans.__('a thread cannot be saved');
    case 'a traceback':
      return trans.__('a traceback cannot be saved');
    case 'an event loop':
      return trans.__('an event loop cannot be saved');
    case 'an object of a cluster':
      return trans.__('an object of a cluster cannot be saved');
    case 'an object shared with other processes':
      return trans.__('an object shared with other processes cannot be saved');
    case 'an open file':
      return trans.__('an open file cannot be saved');
    case 'an output stream':
      return trans.__('an output stream cannot be saved');
    default:
      return '';
  }
}

/** Why the variables of a kernel are older than its session, and of when they are. */
export function oldValuesText(code: string, when: string, trans: TranslationBundle): string {
  return code === 'busy'
    ? trans.__('A cell was running. Its variables are those of %1.', when)
    : trans.__('Its last values could not be saved. Its variables are those of %1.', when);
}

/** In what a variable that is back is not as it was. */
export function differenceText(code: string, trans: TranslationBundle): string {
  switch (code) {
    case 'changed':
      return trans.__('came back changed');
    case 'copied':
      return trans.__('an array in memory now, which was a map of a file');
    case 'no-longer-shared':
      return trans.__('has a copy of what it shared with other variables');
    case 'released':
      return trans.__('with a lock that nobody holds');
    case 'without-cache':
      return trans.__('without what it had cached');
    case 'without-graph':
      return trans.__('without the graph of its gradients');
    case 'without-traceback':
      return trans.__('without its traceback');
    default:
      return trans.__('not in all as it was');
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
    case 'no-dill':
      return trans.__('Its environment has no dill, which saves variables.');
    case 'deadline':
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
