/** The sentences that the server sends as a code with parameters, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ISentence } from '../api/wire/index.js';
import { bytes, duration, time, timeOfDay, usd, usdPerHour } from './format.js';
import { limitAmount, limitName } from './limitText.js';
import { olderSentence } from './sleepText.js';
import { xidText } from './xidText.js';

/**
 * A sentence in words. What happened, what it means and what to do about it.
 *
 * What keeps a server on, and titles of notices, have no full stop.
 */
export function sentenceText(sentence: ISentence, trans: TranslationBundle): string {
  // A server that is newer than this page may know more codes.
  return wording(sentence, trans) ?? sentence.code;
}

/** Several sentences, one after the other. */
export function sentencesText(sentences: readonly ISentence[], trans: TranslationBundle): string {
  return sentences.map(each => sentenceText(each, trans)).join(' ');
}

/** The compiler complains where a code is missing. */
function wording({ code, params }: ISentence, trans: TranslationBundle): string {
  const lasting = (seconds: number): string => duration(seconds * 1000, trans);
  switch (code) {
    // What keeps a server on.
    case 'kernel-running':
      return params.name ? trans.__('%1 is running', params.name) : trans.__('A kernel is running');
    case 'kernel-starting':
      return params.name
        ? trans.__('%1 is starting', params.name)
        : trans.__('A kernel is starting');
    case 'terminal-running':
      return trans.__('%1 runs in a terminal', params.name);
    case 'gpu-in-use':
      return params.name
        ? trans.__('%1 is using the GPU', params.name)
        : trans.__('The GPU is in use');
    case 'cpu-in-use':
      return params.name
        ? trans.__('%1 is using the CPU', params.name)
        : trans.__('One of your programs is using the CPU');

    // Why GPUs cannot be read.
    case 'gpu-driver-silent':
      return trans.__('The GPU driver does not respond.');
    case 'gpu-driver-updated':
      return trans.__('The NVIDIA driver was updated while in use. Restart the machine.');
    case 'gpu-driver-forbidden':
      return trans.__('This server has no permission to query the NVIDIA driver.');
    case 'gpu-driver-not-installed':
      return trans.__('This machine has an NVIDIA GPU, but its driver is not installed.');
    case 'gpu-driver-not-loaded':
      return trans.__('This machine has an NVIDIA GPU, but its driver is not loaded.');
    case 'gpu-driver-failed':
      return trans.__('The NVIDIA driver does not work: %1.', withoutStop(params.detail));

    // Full disks.
    case 'home-full':
      return trans.__(
        'Your home is full (%1 GiB): what you save may be lost. Delete files, or ask for a larger home.',
        params.gib
      );
    case 'home-without-inodes':
      return trans.__(
        'Your home has no inodes left: new files cannot be saved. Delete files you no longer need.'
      );
    case 'system-disk-full':
      return trans.__(
        'The system disk is full (%1 GiB). Delete files outside your home, such as in /tmp.',
        params.gib
      );
    case 'system-disk-without-inodes':
      return trans.__(
        'The system disk has no inodes left. Delete files outside your home, such as in /tmp.'
      );
    case 'folder-bytes':
      return trans.__('%1 takes at least %2.', params.folder, bytes(params.bytes));
    case 'folder-files':
      return trans._n(
        '%2 has at least %1 file.',
        '%2 has at least %1 files.',
        params.files,
        params.folder
      );
    case 'results-wait':
      return trans.__('Results of your runs wait until there is room.');
    case 'home-nearly-full':
      return trans.__('Your home has little room left. Delete what you no longer need.');
    case 'system-disk-nearly-full':
      return trans.__('The system disk has little room left. Delete files outside your home.');
    case 'scratch-nearly-full':
      return trans.__('The scratch disk has little room left. Delete files there.');

    // The titles of notices.
    case 'stopping':
      return trans.__('This server is being stopped');
    case 'stopping-by-admin':
      return trans.__('This server is being stopped by an admin');
    case 'stops':
      return trans.__('This server stops soon');
    case 'sleeps':
      return trans.__('This session sleeps soon');
    case 'session-saving':
      return trans.__('Your session is being saved');
    case 'session-moving':
      return trans.__('Your session moves to another machine');
    case 'server-moving':
      return trans.__('Your server moves to another machine');
    case 'spot-reclaim':
      return trans.__('AWS is reclaiming this instance');
    case 'gpus-unreadable':
      return trans.__('The GPUs cannot be read');
    case 'gpu-lost':
      return trans.__('GPU %1 no longer responds', params.index);
    case 'gpu-memory-errors':
      return trans.__('GPU %1 has uncorrectable memory errors', params.index);
    case 'gpu-xid':
      return trans.__('GPU %1 reported an error', params.index);
    case 'disk-full':
      return trans.__('A disk is full');
    case 'disk-nearly-full':
      return trans.__('A disk is nearly full');
    case 'limit-share':
      return trans.__('%1 % of %2 is used', params.percent, limitName(params, trans));
    case 'limit-used-up':
      return trans.__('Nothing is left of %1', limitName(params, trans));
    case 'limit-exceeded':
      return trans.__('More runs than %1 allows', limitName(params, trans));
    case 'gpu-unused':
      return trans._n(
        'The GPU has not been used for an hour',
        'The GPUs have not been used for an hour',
        params.count
      );
    case 'rebalance':
      return trans.__('AWS may reclaim this instance soon');
    case 'aws-stops':
      return trans.__('AWS stops this instance at %1', dateTime(params.at));
    case 'aws-reboots':
      return trans.__('AWS reboots this instance at %1', dateTime(params.at));
    case 'aws-maintains':
      return trans.__('AWS maintains the host of this instance at %1', dateTime(params.at));
    case 'session-back':
      return trans._n(
        'Your session is back: %1 variable',
        'Your session is back: %1 variables',
        params.count,
        params.count
      );
    case 'session-cell-interrupted':
      return trans.__(
        'Your session is back, but the cell that was running in %1 was interrupted: run it again',
        params.name
      );
    case 'session-work-interrupted':
      return trans.__(
        'Your session is back, but what was running in %1 was interrupted',
        params.name
      );
    case 'session-not-back':
      return trans.__('Your session did not come back');
    case 'admin-message':
      return trans.__('Message from an admin');

    // What a notice says below its title.
    case 'documents-saved':
      return trans.__('Files are saved; kernel memory is lost.');
    case 'session-continues':
      return trans.__('It is saved and continues there; this page reconnects.');
    case 'session-continues-soon':
      return trans.__(
        'Your session is saved and continues on another machine; this page reconnects.'
      );
    case 'cell-interrupted-soon':
      return trans.__('The cell running in %1 will be interrupted.', params.name);
    case 'session-moves-soon':
      return trans.__('Your session continues elsewhere.');
    case 'server-moves-soon':
      return trans.__('Your server continues elsewhere.');
    case 'session-kept':
      return trans.__('Files and variables are kept.');
    case 'cell-may-lose-variables':
      return trans.__('A running cell may lose variables.');
    case 'workers-end':
      return trans._n('%1 worker ends, too.', '%1 workers end, too.', params.count, params.count);
    case 'server-continues':
      return trans.__('Files are kept; variables come back as last saved. This page reconnects.');
    case 'server-continues-soon':
      return trans.__('Your server continues on another machine. Files are kept, variables not.');
    case 'files-not-kept':
      return trans.__('Files on this machine are not kept.');
    case 'save-now':
      return trans.__('Save your work now.');
    case 'spot-may-end':
      return trans.__('Spot capacity of its kind is scarce. If it ends, there is a warning.');
    case 'continues-before':
      return trans.__('Ten minutes before, your server continues on another machine.');
    case 'sleeps-before':
      return trans.__('Ten minutes before, your session is saved and the server stops.');
    case 'stops-before':
      return trans.__('Ten minutes before, this server is stopped. Save your work by then.');
    case 'unreachable-briefly':
      return trans.__('It may be unreachable for a short time, or reboot. Save your work before.');
    case 'session-later':
      return trans._n(
        '%1 is loaded when a cell first uses it.',
        '%1 are loaded when a cell first uses them.',
        params.count,
        params.count
      );
    case 'session-lost':
      return trans.__('%1 did not come back.', params.count);
    case 'session-older':
      return olderSentence(1000 * params.at, trans);
    case 'session-values-older':
      return trans.__('Its variables are older.');
    case 'price-started':
      return trans.__(
        'This server costs %1, %2: EC2 had none at %3, %4',
        usdPerHour(params.now),
        params.market,
        usdPerHour(params.before),
        params.before_market
      );
    case 'price-moved':
      return trans.__(
        'This server moved and costs %1, %2, not %3, %4',
        usdPerHour(params.now),
        params.market,
        usdPerHour(params.before),
        params.before_market
      );
    case 'price-rose': {
      const prices = [usdPerHour(params.before), usdPerHour(params.now)];
      return params.market === 'spot'
        ? trans.__('The spot price of this server rose from %1 to %2', ...prices)
        : trans.__('The price of this server rose from %1 to %2', ...prices);
    }
    case 'price-times':
      return trans.__('%1 times as much.', params.times);
    case 'price-on-demand':
      return trans.__('On-demand costs %1.', usdPerHour(params.usd_per_hour));
    case 'pay-less':
      return trans.__('To pay less, continue elsewhere or stop.');
    case 'today-is-less':
      return trans.__("Today's cost is %1 less than shown before", usd(params.usd));
    case 'not-charged':
      return trans.__('AWS does not charge for a spot instance reclaimed in its first hour.');
    case 'ended-earlier':
      return trans.__('Your server had ended earlier than was known.');
    case 'price-corrected':
      return trans.__('A price was known only later.');
    case 'files-kept':
      return trans.__('Files are kept; kernel memory is lost.');
    case 'files-lost':
      return trans.__('Files are lost: save them elsewhere.');
    case 'max-age':
      return trans.__('Its maximum age is %1.', lasting(params.seconds));
    case 'xid':
      return xidText(params.number, trans);
    case 'replace-server':
      return trans.__('Stop this server and start a new one to get another machine.');
    case 'contact-admin':
      return trans.__('Contact the admin of this machine.');
    case 'results-wrong':
      return trans.__('Results computed on it may be wrong.');
    case 'replace-server-if-it-persists':
      return trans.__('If it persists, start a new server to get another machine.');
    case 'contact-admin-if-it-persists':
      return trans.__('If it persists, contact the admin of this machine.');
    case 'limit-amount': {
      const used = limitAmount(params.kind, params.used, trans);
      const whole = limitAmount(params.kind, params.limit, trans);
      return params.at_least
        ? trans.__('That is at least %1 of %2; some prices are unknown.', used, whole)
        : trans.__('That is %1 of %2; costs are estimates.', used, whole);
    }
    case 'limit-forecast':
      return trans.__('At the present rate it is used up at %1.', dateTime(params.at));
    case 'limit-stops':
      return trans.__('It reaches %1.', limitName(params, trans));
    case 'limit-runs':
      return trans.__(
        'That is %1 of %2.',
        limitAmount(params.kind, params.used, trans),
        limitAmount(params.kind, params.limit, trans)
      );
    case 'limit-no-start':
      return trans.__('No other server can start.');
    case 'profile-without-gpu':
      return params.files_kept
        ? trans.__('If you do not need one, a profile without a GPU costs less. Files are kept.')
        : trans.__(
            'If you do not need one, a profile without a GPU costs less. Its home starts empty.'
          );
    case 'message-text':
      return params.text;

    // Replies to a button.
    case 'extension-bounded':
      return trans.__('Kept on for as long as the idle policy allows.');
    case 'limit-not-extended':
      return trans.__(
        'This server stops at %1, when %2 is used up: no extension changes that.',
        time(1000 * params.at),
        limitName(params, trans)
      );
    case 'idle-time-bounded':
      return params.min_seconds === params.max_seconds
        ? trans.__(
            'The policy allows %1 only. This server now stops after %2 idle.',
            lasting(params.max_seconds),
            lasting(params.seconds)
          )
        : trans.__(
            'The policy allows %1 to %2. This server now stops after %3 idle.',
            lasting(params.min_seconds),
            lasting(params.max_seconds),
            lasting(params.seconds)
          );
    case 'refused':
      return trans.__('The hub refused: %1.', withoutStop(params.detail));
    case 'run-invalid':
      return trans.__('This cannot be run: %1.', withoutStop(params.detail));
    case 'hub-silent':
      return trans.__('The hub does not respond. Try again in a moment.');
    case 'hub-timeout':
      return trans.__('The hub did not respond in time. Try again in a moment.');
    case 'agent-silent':
      return trans.__('The instance agent does not respond. Try again in a moment.');
    case 'agent-gone':
      return trans.__('The instance agent has stopped.');
    case 'not-managed':
      return trans.__('This server was not started by the hub and cannot be controlled from here.');
    case 'owner-only':
      return trans.__('Only the owner of this server can do this.');
    case 'not-stopping':
      return trans.__('This server is not being stopped.');
    case 'invalid-request':
      return trans.__('The request was not valid. Reload the page and try again.');
  }
}

/** Seconds since 1970, with the day unless it is today. */
function dateTime(seconds: number): string {
  return timeOfDay(1000 * seconds, Date.now());
}

function withoutStop(text: string): string {
  return text.trim().replace(/\.$/, '');
}
