import type { IStateDB } from '@jupyterlab/statedb';
import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';

const ID = 'ec2spawner-lab:scroll-positions';

/** So many notebooks; the one that was scrolled longest ago is forgotten. About 80 bytes each. */
export const MAX_POSITIONS = 100;

/** What is at the top of a notebook, and which cell is active in it. */
export interface IScrollPosition {
  /** Id of the first cell that is visible. */
  readonly cell: string;
  /** How much of that cell is above the visible part, in pixels. */
  readonly offset: number;
  /** Id of the active cell; empty if there is none. */
  readonly active: string;
}

/**
 * Where each notebook was scrolled to, by path, in JupyterLab's state database: part of the workspace,
 * and with it of the home.
 */
export class ScrollPositions {
  constructor(private readonly _state: IStateDB) {
    this._loaded = this._load();
  }

  async get(path: string): Promise<IScrollPosition | undefined> {
    await this._loaded;
    return this._byPath.get(path);
  }

  async set(path: string, position: IScrollPosition): Promise<void> {
    await this._loaded;
    this._byPath.delete(path);
    this._byPath.set(path, position);
    for (const oldest of this._byPath.keys()) {
      if (this._byPath.size <= MAX_POSITIONS) {
        break;
      }
      this._byPath.delete(oldest);
    }
    const value = [...this._byPath].map(([path, each]) => ({ path, ...each }));
    await this._state.save(ID, value);
  }

  private async _load(): Promise<void> {
    try {
      for (const { path, ...position } of readPositions(await this._state.fetch(ID))) {
        this._byPath.set(path, position);
      }
    } catch (error) {
      console.debug('ec2spawner: no scroll positions', error);
    }
  }

  private readonly _byPath = new Map<string, IScrollPosition>();
  private readonly _loaded: Promise<void>;
}

/** The positions that are well-formed; a workspace is a file that anything may have written. */
export function readPositions(
  value: ReadonlyPartialJSONValue | undefined
): (IScrollPosition & { path: string })[] {
  const entries = Array.isArray(value) ? (value as unknown[]).slice(-MAX_POSITIONS) : [];
  return entries.flatMap(entry => {
    const { path, cell, offset, active } = (entry ?? {}) as Record<string, unknown>;
    return typeof path === 'string' &&
      typeof cell === 'string' &&
      typeof active === 'string' &&
      Number.isFinite(offset)
      ? [{ path, cell, offset: offset as number, active }]
      : [];
  });
}
