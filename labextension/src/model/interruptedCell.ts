/** The cell that was running when the session slept. Pure. */

import type { IWake } from '../api/wire/index.js';

/** Where a cell is. */
export interface ICellPlace {
  /** Of its notebook. */
  readonly path: string;
  /** Empty where it is not known. */
  readonly cellId: string;
}

/** The first cell that was interrupted and does not run again by itself; null where none is. */
export function interruptedCell(wake: IWake | null): ICellPlace | null {
  for (const { path, interrupted_cell: cellId } of wake?.kernels ?? []) {
    if (path && typeof cellId === 'string') {
      return { path, cellId };
    }
  }
  return null;
}
