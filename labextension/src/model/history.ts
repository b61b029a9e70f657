/** The last hour, put together from what was asked before and what came since. Pure. */

import type { IGpuHistory, IHistory } from '../api/wire/index.js';

export const HOUR_SECONDS = 3600;

/** From when on the next question asks; 0 asks for everything. */
export function since(known: IHistory | null): number {
  return known?.at.at(-1) ?? 0;
}

/** What is known with the news behind it; the news alone where the two do not belong together. */
export function merged(known: IHistory | null, news: IHistory): IHistory {
  if (!known || known.at.length === 0 || !isSameMachine(known, news)) {
    return news;
  }
  const last = since(known);
  const isNew = news.at.map(at => at > last);
  const end = news.at.at(-1) ?? last;
  const isOld = known.at.map(at => at <= end - HOUR_SECONDS);
  const join = <T>(before: T[], after: T[]): T[] => [
    ...before.filter((_, index) => !isOld[index]),
    ...after.filter((_, index) => isNew[index])
  ];
  return {
    step_seconds: news.step_seconds,
    at: join(known.at, news.at),
    cpu_percent: join(known.cpu_percent, news.cpu_percent),
    memory_percent: join(known.memory_percent, news.memory_percent),
    gpus: news.gpus.map((gpu, index) => ({
      ...gpu,
      use_percent: join(known.gpus[index].use_percent, gpu.use_percent),
      memory_percent: join(known.gpus[index].memory_percent, gpu.memory_percent)
    }))
  };
}

/** Another machine has other GPUs; one whose clock was set back has other times. */
export function isSameMachine(known: IHistory, news: IHistory): boolean {
  const names = (gpus: IGpuHistory[]): string => gpus.map(gpu => gpu.index).join();
  return (
    known.step_seconds === news.step_seconds &&
    names(known.gpus) === names(news.gpus) &&
    (news.at.at(-1) ?? Infinity) >= since(known)
  );
}

/** Mean and maximum of what was measured; null where nothing was. */
export function summary(values: (number | null)[]): { mean: number; max: number } | null {
  const measured = values.filter(value => value !== null);
  if (measured.length === 0) {
    return null;
  }
  const total = measured.reduce((sum, value) => sum + value, 0);
  return { mean: total / measured.length, max: Math.max(...measured) };
}
