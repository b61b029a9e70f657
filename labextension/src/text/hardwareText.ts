/** Other hardware to continue on, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IHardwareChoice, IMove, INotebookStatus } from '../api/wire/index.js';
import { gpusOf } from '../model/state.js';
import { bytes, usdPerHour } from './format.js';

const BYTES_PER_MIB = 2 ** 20;

/** From here on it is said how many times as much it is. */
const NOTABLE_RATIO = 1.5;

export interface IHardwareText {
  name: string;
  /** Such as `$0.31/h, spot`. */
  price: string;
  /** Why it cannot be chosen; empty where it can. */
  refusal: string;
  /** What does not fit, or that it is sold out; may be empty. */
  notes: string[];
}

/** One line of the dialog. */
export function hardwareText(
  choice: IHardwareChoice,
  status: INotebookStatus | null,
  trans: TranslationBundle
): IHardwareText {
  const price =
    choice.usd_per_hour === null ? trans.__('price unknown') : usdPerHour(choice.usd_per_hour);
  const times = timesText(choice, status, trans);
  return {
    name: choice.name,
    price: choice.market ? trans.__('%1, %2', price, choice.market) : price,
    refusal: choice.refusal,
    notes: [
      times,
      choice.is_available || choice.refusal ? '' : trans.__('Sold out when last checked.'),
      gpuNote(choice, status, trans),
      memoryNote(choice, status, trans)
    ].filter(Boolean)
  };
}

/** What the server costs now, to compare the choices with; empty where that is unknown. */
export function presentPriceText(status: INotebookStatus | null, trans: TranslationBundle): string {
  const cost = status?.cost;
  if (typeof cost?.usd_per_hour !== 'number' || cost.market === null) {
    return '';
  }
  return trans.__('Now: %1, %2.', usdPerHour(cost.usd_per_hour), cost.market);
}

/** Where it costs much more than now. */
function timesText(
  { usd_per_hour: price }: IHardwareChoice,
  status: INotebookStatus | null,
  trans: TranslationBundle
): string {
  const now = status?.cost?.usd_per_hour;
  const times = price !== null && now ? price / now : 0;
  return times >= NOTABLE_RATIO ? trans.__('%1 times the price of now.', times.toFixed(1)) : '';
}

/** Where the server's own disk would be kept after a stop. */
export function deletedDiskText(trans: TranslationBundle): string {
  return trans.__(
    "This machine's own disk, which a stop keeps, is deleted. What you have installed or saved outside of your home is lost."
  );
}

/** What is in GPU memory now is the most that variables can have there. */
function gpuNote(
  choice: IHardwareChoice,
  status: INotebookStatus | null,
  trans: TranslationBundle
): string {
  const usedMib = (status && gpusOf(status)?.usedMib) ?? 0;
  const used = usedMib * BYTES_PER_MIB;
  if (used <= choice.gpu_memory_bytes || usedMib === 0) {
    return '';
  }
  return choice.gpu_memory_bytes === 0
    ? trans.__('No GPU: what is on the GPU comes back in main memory.')
    : trans.__(
        '%1 of GPU memory are in use; this has %2.',
        bytes(used),
        bytes(choice.gpu_memory_bytes)
      );
}

function memoryNote(
  choice: IHardwareChoice,
  status: INotebookStatus | null,
  trans: TranslationBundle
): string {
  const used = (status?.telemetry?.memory_used_mib ?? 0) * BYTES_PER_MIB;
  return choice.memory_bytes > 0 && used > choice.memory_bytes
    ? trans.__('%1 of memory are in use; this has %2.', bytes(used), bytes(choice.memory_bytes))
    : '';
}

/** How far a move is; empty where there is none. */
export function moveText(move: IMove, trans: TranslationBundle): string {
  switch (move.state) {
    case 'none':
      return '';
    case 'looking':
      return trans.__('Looking for %1. You can work on until it is there.', move.profile_name);
    case 'booting':
      return trans.__('%1 is booting. You can work on until it is there.', move.profile_name);
    case 'moving':
      return trans.__('%1 is there. Your session is being saved.', move.profile_name);
    case 'failed':
      return trans.__('Your server stays as it is: %1', move.message);
  }
}
