/** GPUs, the rest of the machine, and who uses them, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { TemperatureUnit } from '../settings.js';
import * as format from './format.js';
import type {
  IDiskUse,
  IGpuSample,
  IMigSlice,
  ITelemetry,
  IWorker,
  SlowedBy
} from '../api/wire/index.js';

const UNKNOWN = '–';

/** `A10G · 24 GB`, `8 × A100 · 40 GB each`. */
export function gpusTitle(telemetry: ITelemetry, trans: TranslationBundle): string {
  const [first] = telemetry.gpus;
  if (!first) {
    return trans.__('GPU');
  }
  const count = telemetry.gpus.length;
  const model = format.gpuModel(first.name) || trans.__('GPU');
  const total = first.memory_total_mib;
  const size = total === null ? '' : `${(total / format.mibPerGb(total)).toFixed(0)} GB`;
  return [
    count > 1 ? `${count} × ${model}` : model,
    count > 1 && size ? trans.__('%1 each', size) : size,
    telemetry.gpu_source === 'simulated' ? trans.__('simulated') : ''
  ]
    .filter(Boolean)
    .join(' · ');
}

/** `14.2 of 24 GB`. */
export function memoryText(
  used: number | null,
  total: number | null,
  trans: TranslationBundle
): string {
  if (used === null || total === null) {
    return UNKNOWN;
  }
  const unit = format.mibPerGb(total);
  const whole = (total / unit).toFixed(0);
  // Tenths of a gigabyte say nothing beside a terabyte.
  const text = total < 1000 * unit ? (used / unit).toFixed(1) : (used / unit).toFixed(0);
  return trans.__('%1 of %2 GB', padded(text, Math.max(4, whole.length)), whole);
}

/** `93 %, inodes 12 %`: of a disk's space, and of its inodes where there is a number of them. */
export function diskUse(disk: IDiskUse, trans: TranslationBundle): string {
  const used = format.percent(disk.used_percent);
  return disk.inodes_percent === null
    ? used
    : trans.__('%1, inodes %2', used, format.percent(disk.inodes_percent));
}

export function diskName({ kind, path }: IDiskUse, trans: TranslationBundle): string {
  if (kind === 'home') {
    return trans.__('Home');
  }
  return kind === 'system' ? trans.__('System') : path;
}

export function percentText(percent: number | null | undefined): string {
  return typeof percent === 'number' ? format.percent(percent) : UNKNOWN;
}

/** `61 °C · 212 of 300 W`; empty where nothing is known. */
export function heatText(
  gpu: IGpuSample,
  trans: TranslationBundle,
  unit: TemperatureUnit = 'celsius'
): string {
  const { temperature_c: heat, power_w: power, power_limit_w: limit } = gpu;
  const texts = [];
  if (heat !== null) {
    texts.push(
      unit === 'celsius'
        ? trans.__('%1 °C', padded(Math.round(heat), 2))
        : trans.__('%1 °F', padded(Math.round(heat * 1.8 + 32), 3))
    );
  }
  if (power !== null) {
    const watts = padded(Math.round(power), 3);
    texts.push(limit ? trans.__('%1 of %2 W', watts, Math.round(limit)) : trans.__('%1 W', watts));
  }
  return texts.join(' · ');
}

/** `1410 of 1980 MHz`, `1215 MHz · slowed: power limit`; empty where nothing is known. */
export function clockText(gpu: IGpuSample, trans: TranslationBundle): string {
  const { clock_mhz: clock, clock_max_mhz: fastest, slowed_by: reasons } = gpu;
  const names: Record<SlowedBy, string> = {
    power: trans.__('power limit'),
    heat: trans.__('heat'),
    hardware: trans.__('hardware slowdown'),
    sync: trans.__('waiting for other GPUs')
  };
  const slowed = reasons.map(reason => names[reason]).filter(Boolean);
  const mhz = clock === null ? '' : padded(Math.round(clock), 4);
  if (slowed.length > 0) {
    const by = trans.__('slowed: %1', slowed.join(', '));
    return mhz ? `${trans.__('%1 MHz', mhz)} · ${by}` : by;
  }
  if (!mhz) {
    return '';
  }
  return fastest ? trans.__('%1 of %2 MHz', mhz, Math.round(fastest)) : trans.__('%1 MHz', mhz);
}

/** With room for as many digits, so that nothing moves when one comes or goes. */
function padded(value: number | string, digits: number): string {
  return value.toString().padStart(digits, format.FIGURE_SPACE);
}

export interface ITrouble {
  level: 'error' | 'warning' | 'info';
  text: string;
}

/** What is wrong with a GPU. What to do about it is said by the notice. */
export function gpuTroubles(gpu: IGpuSample, now: number, trans: TranslationBundle): ITrouble[] {
  const troubles: ITrouble[] = [];
  if (gpu.lost) {
    const text = trans.__(
      'This GPU no longer responds. Start a new server to get another machine.'
    );
    return [{ level: 'error', text }];
  }
  if (gpu.xid !== null) {
    const text = gpu.xid_at
      ? trans.__(
          'Its driver reported error Xid %1 at %2.',
          gpu.xid,
          format.timeOfDay(Date.parse(gpu.xid_at), now)
        )
      : trans.__('Its driver reported error Xid %1.', gpu.xid);
    troubles.push({ level: 'error', text });
  }
  if (gpu.ecc_uncorrected) {
    const count = gpu.ecc_uncorrected;
    const text = trans._n(
      '%1 memory error could not be corrected: results may be wrong.',
      '%1 memory errors could not be corrected: results may be wrong.',
      count,
      count
    );
    troubles.push({ level: 'error', text });
  }
  if (gpu.ecc_corrected) {
    const count = gpu.ecc_corrected;
    const text = trans._n(
      '%1 memory error was corrected.',
      '%1 memory errors were corrected.',
      count,
      count
    );
    troubles.push({ level: 'info', text });
  }
  return troubles;
}

/** `14.2 GB`: where the whole stands above. */
export function usedText(
  used: number | null,
  total: number | null,
  trans: TranslationBundle
): string {
  if (used === null) {
    return UNKNOWN;
  }
  const unit = format.mibPerGb(total ?? used);
  return trans.__('%1 GB', padded((used / unit).toFixed(1), 4));
}

/** `34 % · 2.1 of 5 GB`. */
export function sliceText(slice: IMigSlice, trans: TranslationBundle): string {
  const memory = memoryText(slice.memory_used_mib, slice.memory_total_mib, trans);
  return slice.use_percent === null ? memory : `${format.percent(slice.use_percent)} · ${memory}`;
}

/** `1.2 in, 0.3 out MiB/s`; empty where one is not known. */
export function ratesText(
  first: number | null | undefined,
  second: number | null | undefined,
  firstName: string,
  secondName: string,
  trans: TranslationBundle
): string {
  if (typeof first !== 'number' || typeof second !== 'number') {
    return '';
  }
  return trans.__('%1 %2, %3 %4 MiB/s', rate(first), firstName, rate(second), secondName);
}

function rate(mibPerSecond: number): string {
  return mibPerSecond < 99.95 ? mibPerSecond.toFixed(1) : mibPerSecond.toFixed(0);
}

/** How many workers fit before the list is only noise. */
const MAX_WORKERS = 8;

/**
 * The busiest workers, in an order that does not change with every second: who uses a GPU first,
 * notebooks before terminals before other programs, then by name.
 */
export function shownWorkers(workers: IWorker[]): { shown: IWorker[]; more: number } {
  const busiest = workers.slice(0, MAX_WORKERS);
  const kinds: IWorker['kind'][] = ['kernel', 'terminal', 'program'];
  const rank = (worker: IWorker): number =>
    (worker.gpus.length > 0 ? 0 : kinds.length) + kinds.indexOf(worker.kind);
  busiest.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name) || a.pid - b.pid);
  return { shown: busiest, more: workers.length - busiest.length };
}

/** `train.ipynb`, `Terminal 1, python`, `tensorboard`. */
export function workerName(worker: IWorker, trans: TranslationBundle): string {
  if (worker.kind === 'kernel') {
    return worker.name.split('/').at(-1) || worker.name;
  }
  if (worker.kind === 'program') {
    return worker.name;
  }
  const terminal = worker.terminal
    ? trans.__('Terminal %1', worker.terminal)
    : trans.__('Terminal');
  return worker.name ? `${terminal}, ${worker.name}` : terminal;
}

/** `81 % · 13.8 GB` of the one GPU, `GPU 0-3 · 81 % · 13.8 GB` of several, `CPU 140 %`. */
export function workerUse(worker: IWorker, gpuCount: number, trans: TranslationBundle): string {
  const texts = [];
  if (worker.gpus.length > 0) {
    texts.push(gpuCount > 1 ? trans.__('GPU %1', ranges(worker.gpus)) : '');
    texts.push(worker.gpu_percent === null ? '' : format.percent(worker.gpu_percent));
    texts.push(worker.gpu_memory_mib === null ? '' : gigabytes(worker.gpu_memory_mib, trans));
  } else if (worker.cpu_percent !== null) {
    texts.push(trans.__('CPU %1', format.percent(worker.cpu_percent)));
    texts.push(worker.memory_mib === null ? '' : gigabytes(worker.memory_mib, trans));
  }
  return texts.filter(Boolean).join(' · ');
}

function gigabytes(mib: number, trans: TranslationBundle): string {
  return trans.__('%1 GB', (mib / 1024).toFixed(1));
}

/** `0-3, 7`. */
function ranges(numbers: number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const texts: string[] = [];
  for (let start = 0; start < sorted.length;) {
    let end = start;
    while (sorted[end + 1] === sorted[end] + 1) {
      end += 1;
    }
    texts.push(end > start ? `${sorted[start]}-${sorted[end]}` : `${sorted[start]}`);
    start = end + 1;
  }
  return texts.join(', ');
}
