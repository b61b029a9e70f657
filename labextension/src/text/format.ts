/** Numbers as people read them. Pure: no DOM, no clock. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IAmount } from '../model/state.js';

/** As wide as a digit: keeps what stands beside a number in its place. */
export const FIGURE_SPACE = '\u2007';
const NO_BREAK_SPACE = '\u00a0';

/** Room for `100`, so that nothing moves when a digit comes or goes. */
export function percent(value: number): string {
  return Math.round(value).toString().padStart(3, FIGURE_SPACE) + NO_BREAK_SPACE + '%';
}

/**
 * Money spent. Below a dollar it shows tenths of a cent, or an hour of a cheap machine would
 * look as if nothing were counted; money that is spent never reads as zero.
 */
export function usd(value: number): string {
  if (value >= 1) {
    return `$${value.toFixed(2)}`;
  }
  return value > 0 && value < 0.001 ? '<$0.001' : `$${value.toFixed(3)}`;
}

/** A price an hour, with two digits that mean something. */
export function usdPerHour(value: number): string {
  const digits = value === 0 || value >= 0.1 ? 2 : value >= 0.01 ? 3 : 4;
  return `$${value.toFixed(digits)}/h`;
}

/** `$1.37`, or `at least $1.37` where more is unknown. `shown` words the number. */
export function amount(
  { usd: value, isLowerBound }: IAmount,
  shown: (usd: number) => string,
  trans: TranslationBundle
): string {
  return isLowerBound ? trans.__('at least %1', shown(value)) : shown(value);
}

/** `9:41`, `59:00`, `1:04:09`. */
export function countdown(milliseconds: number): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  const rest = [Math.floor(seconds / 60) % 60, seconds % 60];
  const hours = Math.floor(seconds / 3600);
  if (hours === 0) {
    return `${rest[0]}:${twoDigits(rest[1])}`;
  }
  return [hours.toString(), ...rest.map(twoDigits)].join(':');
}

/** `20 seconds`, `50 minutes`, `1 hour`, `2 hours 5 minutes`. */
export function duration(milliseconds: number, trans: TranslationBundle): string {
  const minutes = Math.floor(Math.max(0, milliseconds) / 60_000);
  if (minutes === 0) {
    const seconds = Math.floor(Math.max(0, milliseconds) / 1000);
    return trans._n('%1 second', '%1 seconds', seconds, seconds);
  }
  const hours = Math.floor(minutes / 60);
  const parts = [];
  if (hours > 0) {
    parts.push(trans._n('%1 hour', '%1 hours', hours, hours));
  }
  if (minutes % 60 > 0) {
    parts.push(trans._n('%1 minute', '%1 minutes', minutes % 60, minutes % 60));
  }
  return parts.join(' ');
}

/** `55 min`, `2 h 5 min`; `45 s` in the last minute. */
export function shortDuration(milliseconds: number, trans: TranslationBundle): string {
  if (milliseconds < 60_000) {
    return trans.__('%1 s', Math.max(0, Math.floor(milliseconds / 1000)));
  }
  const minutes = Math.round(milliseconds / 60_000);
  const hours = Math.floor(minutes / 60);
  const rest = minutes % 60;
  if (hours === 0) {
    return trans.__('%1 min', minutes);
  }
  return rest === 0 ? trans.__('%1 h', hours) : trans.__('%1 h %2 min', hours, rest);
}

/** `18:00`, where the reader is: for instants within a day. */
export function time(instant: number): string {
  return new Intl.DateTimeFormat(undefined, { timeStyle: 'short' }).format(instant);
}

/** The time of day where the reader is; with the day, when that is another one. */
export function timeOfDay(instant: number, now: number, timeZone?: string): string {
  const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone });
  const time = new Intl.DateTimeFormat(undefined, { timeStyle: 'short', timeZone });
  const today = day.format(instant) === day.format(now);
  return today ? time.format(instant) : `${day.format(instant)}, ${time.format(instant)}`;
}

/** `November`, as months are counted for bills: in UTC. */
export function monthName(instant: number): string {
  return new Intl.DateTimeFormat(undefined, { month: 'long', timeZone: 'UTC' }).format(instant);
}

/** `NVIDIA A10G` -> `A10G`, `NVIDIA A100-SXM4-40GB` -> `A100`, `Tesla T4` -> `T4`. */
export function gpuModel(name: string): string {
  return name
    .replace(/^((NVIDIA|Tesla|Quadro|GeForce)\s+)+/i, '')
    .replace(/[\s-]+(SXM\d*|PCIe|HBM\d*e?|NVL|\d+\s*GB)\b.*$/i, '')
    .trim();
}

/** GPU memory that makers print on the box, in GB. */
const SOLD_GB = [
  3, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 141, 160, 180, 192, 288
];
const BYTES_PER_MIB = 2 ** 20;

/**
 * MiB in one GB of this GPU, as its maker counts.
 *
 * Some models are sold in binary units (A100: 40,960 MiB are "40 GB"), some in decimal ones
 * (A10G: 22,888 MiB are "24 GB"), and drivers keep a little for themselves. The unit that
 * comes nearest to a size that is sold is the one that people know this GPU by.
 */
export function mibPerGb(totalMib: number): number {
  const distance = (unit: number): number => {
    const gb = totalMib / unit;
    return Math.min(...SOLD_GB.map(sold => Math.abs(gb - sold) / sold));
  };
  const decimal = 1e9 / BYTES_PER_MIB;
  return distance(1024) < distance(decimal) ? 1024 : decimal;
}

/** `14.2/24 GB`; the number in front keeps its width. */
export function memory(usedMib: number, totalMib: number, unitMib: number): string {
  const total = (totalMib / unitMib).toFixed(0);
  const used = (usedMib / unitMib).toFixed(1).padStart(total.length + 2, FIGURE_SPACE);
  return `${used}/${total}${NO_BREAK_SPACE}GB`;
}

const BYTE_UNITS: [string, number][] = [
  ['TB', 1e12],
  ['GB', 1e9],
  ['MB', 1e6],
  ['KB', 1e3]
];

/** `3.1 GB`, `40 MB`: decimal units, as disks are sold. */
export function bytes(size: number): string {
  for (const [unit, length] of BYTE_UNITS) {
    // What rounds up to 1000 of a unit is 1 of the next.
    if (size >= 0.9995 * length) {
      const digits = size < 9.95 * length && length >= 1e9 ? 1 : 0;
      return `${(size / length).toFixed(digits)}${NO_BREAK_SPACE}${unit}`;
    }
  }
  return `${Math.round(size)}${NO_BREAK_SPACE}B`;
}

function twoDigits(value: number): string {
  return value.toString().padStart(2, '0');
}
