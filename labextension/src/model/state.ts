/** What a view of the server means. Pure: no DOM, no clock. */

import type { IView } from './statusModel.js';
import type { ICost, ILimit, INotebookStatus } from '../api/wire/index.js';

/** The one thing that matters most about a server right now, gravest first. */
export type State =
  | { kind: 'loading' }
  | { kind: 'away' }
  | { kind: 'moving' }
  | { kind: 'stopped' }
  | { kind: 'stopping' }
  | { kind: 'interrupted'; at: number }
  | { kind: 'agent-silent' }
  | { kind: 'warned'; stopAt: number }
  | { kind: 'limited'; stopAt: number; limit: ILimit }
  | { kind: 'disk-full' }
  | { kind: 'hub-silent' }
  | { kind: 'waking' }
  | { kind: 'idle'; stopAt: number | null }
  | { kind: 'in-use' }
  | { kind: 'unknown' };

export function stateOf(view: IView): State {
  const status = view.status;
  if (!status) {
    return { kind: view.phase === 'away' ? 'away' : 'loading' };
  }
  const interruptedAt = instant(status.interruption_at);
  if (view.phase === 'away') {
    if (view.end?.continues) {
      return { kind: 'moving' };
    }
    // Without the hub's word, what had been announced has come.
    const ended = view.end ? !view.end.running : Boolean(status.stop) || interruptedAt !== null;
    return { kind: !ended ? 'away' : view.end || !continuesAfter(status) ? 'stopped' : 'moving' };
  }
  if (status.stop) {
    return { kind: 'stopping' };
  }
  if (interruptedAt !== null) {
    return { kind: 'interrupted', at: interruptedAt };
  }
  if (status.managed && !status.agent_connected) {
    return { kind: 'agent-silent' };
  }
  const stopAt = instant(status.idleness?.stop_at);
  const warnAt = instant(status.idleness?.warn_at);
  const limit = status.cost?.limits.at(0) ?? null;
  const limitAt = instant(limit?.stop_at);
  const isWarned = stopAt !== null && warnAt !== null && view.now >= warnAt;
  if (limit !== null && limitAt !== null && !(isWarned && stopAt < limitAt)) {
    return { kind: 'limited', stopAt: limitAt, limit };
  }
  if (isWarned) {
    return { kind: 'warned', stopAt };
  }
  if (status.full_disks.length > 0) {
    return { kind: 'disk-full' };
  }
  if (status.managed && !status.hub_reachable) {
    return { kind: 'hub-silent' };
  }
  if (status.wake?.state === 'waking') {
    return { kind: 'waking' };
  }
  if (!status.idleness) {
    return { kind: 'unknown' };
  }
  const idle = status.idleness.idle_since !== null || stopAt !== null;
  return idle ? { kind: 'idle', stopAt } : { kind: 'in-use' };
}

/** Whether its user, who is the reader, has let the session sleep: it ends as it should. */
export function isChosenSleep({ status, end }: IView): boolean {
  const stop = end?.stop ?? status?.stop;
  const isReaders = stop?.reason === 'user' && status?.can_control !== false;
  return isReaders && stop.sleep === 'user' && end?.asleep !== false;
}

/** The state by which the server is coloured: the kind, or `asleep` where its user chose that. */
export function colouredState(view: IView): State['kind'] | 'asleep' {
  const { kind } = stateOf(view);
  return (kind === 'stopped' || kind === 'stopping') && isChosenSleep(view) ? 'asleep' : kind;
}

/** Whether the server was announced to continue elsewhere. */
function continuesAfter({
  stop,
  interruption_at,
  continues,
  files_kept
}: INotebookStatus): boolean {
  return stop
    ? stop.sleep === 'interruption' || stop.sleep === 'hardware'
    : Boolean(interruption_at) && continues && files_kept;
}

/** USD; a lower bound where a price is unknown. */
export interface IAmount {
  usd: number;
  isLowerBound: boolean;
}

/** What grows by its price: a server without its workers, or its workers. */
type Growing = Pick<ICost, 'usd' | 'usd_per_hour' | 'known_usd' | 'known_usd_per_hour' | 'as_of'>;

/** Cost of the server and its workers at `now`, in USD; null when it is unknown. */
export function costAt(cost: ICost, now: number): number | null {
  const known = knownCostAt(cost, now);
  return known === null || known.isLowerBound ? null : known.usd;
}

/** Cost of the server and its workers at `now`, as far as prices are known; null where none is. */
export function knownCostAt(cost: ICost, now: number): IAmount | null {
  return total(partAt(cost, now), cost.workers && partAt(cost.workers, now), cost);
}

/** The same of the server alone, or of its workers alone. */
export function partAt(part: Growing, now: number): IAmount | null {
  const usd = part.usd ?? part.known_usd;
  return usd === null ? null : { usd: usd + growth(part, now), isLowerBound: part.usd === null };
}

/** A sum over all servers of the user at `now`, or what is known of it; null where nothing is. */
export function grown(
  usd: number | null,
  known: number | null,
  cost: ICost,
  now: number
): IAmount | null {
  const sum = usd ?? known;
  const more = growth(cost, now) + (cost.workers ? growth(cost.workers, now) : 0);
  return sum === null ? null : { usd: sum + more, isLowerBound: usd === null };
}

/** What an hour of the server and its workers costs, as far as prices are known. */
export function knownPrice(cost: ICost): IAmount | null {
  return total(priceOf(cost), cost.workers && priceOf(cost.workers), cost);
}

/** The same of the server alone, or of its workers alone; null where no price is known. */
export function priceOf(part: Growing): IAmount | null {
  const usd = part.usd_per_hour ?? part.known_usd_per_hour;
  return usd === null ? null : { usd, isLowerBound: part.usd_per_hour === null };
}

function total(own: IAmount | null, more: IAmount | null, { workers }: ICost): IAmount | null {
  if (!workers || own === null) {
    return own;
  }
  const usd = own.usd + (more?.usd ?? 0);
  return { usd, isLowerBound: own.isLowerBound || (more?.isLowerBound ?? true) };
}

function growth(part: Growing, now: number): number {
  const hours = Math.max(0, now - Date.parse(part.as_of)) / 3_600_000;
  return (priceOf(part)?.usd ?? 0) * hours;
}

/** All GPUs of a machine as one; a number that one of them does not report is unknown. */
export interface IGpus {
  name: string;
  count: number;
  usePercent: number | null;
  usedMib: number | null;
  totalMib: number | null;
  /** Memory of one GPU: decides in which unit its maker counts. */
  oneMib: number | null;
  simulated: boolean;
}

export function gpusOf(status: INotebookStatus): IGpus | null {
  const gpus = status.telemetry?.gpus ?? [];
  if (gpus.length === 0) {
    return null;
  }
  const use = sum(gpus.map(gpu => gpu.use_percent));
  return {
    name: gpus[0].name,
    count: gpus.length,
    usePercent: use === null ? null : use / gpus.length,
    usedMib: sum(gpus.map(gpu => gpu.memory_used_mib)),
    totalMib: sum(gpus.map(gpu => gpu.memory_total_mib)),
    oneMib: gpus[0].memory_total_mib,
    simulated: status.telemetry?.gpu_source === 'simulated'
  };
}

/** True where the server can be stopped from here: an agent answers, and its owner asks. */
export function canControl(status: INotebookStatus): boolean {
  return status.managed && status.can_control && status.agent_connected && !status.stop;
}

/** True where its session can be put to sleep from here. */
export function canSleep(status: INotebookStatus): boolean {
  return canControl(status) && status.can_sleep;
}

/** True for a person with whom the server is only shared. */
export function isGuest(status: INotebookStatus | null): boolean {
  return Boolean(status?.managed) && !status?.can_control;
}

/** True where the server is being stopped, or has fallen silent. */
export function isStopping({ phase, status }: IView): boolean {
  return phase === 'away' || Boolean(status?.stop);
}

/** An instant until which the user may ask to keep the server on, in ms since the epoch. */
export interface IKeep {
  until: number;
  /** False where nothing would come of it. */
  changes: boolean;
}

/** Until when the server may be kept on, the nearest first; empty for who may not ask. */
export function keepChoices({ status, now }: Pick<IView, 'status' | 'now'>): IKeep[] {
  if (!status || !canControl(status) || status.interruption_at) {
    return [];
  }
  return status.keep
    .map(({ until, changes }) => ({ until: Date.parse(until), changes }))
    .filter(({ until }) => until > now);
}

/** The nearest instant that changes something; null where none does. */
export function nextKeep(view: Pick<IView, 'status' | 'now'>): number | null {
  return keepChoices(view).find(({ changes }) => changes)?.until ?? null;
}

export function instant(text: string | null | undefined): number | null {
  return text ? Date.parse(text) : null;
}

function sum(values: (number | null)[]): number | null {
  return values.reduce<number | null>(
    (total, value) => (total === null || value === null ? null : total + value),
    0
  );
}
