import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { DisposableSet, type IDisposable } from '@lumino/disposable';
import { Debouncer } from '@lumino/polling';
import { Signal, type ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import type { IScrollPosition, ScrollPositions } from './scrollPositions.js';

/** A position is saved when the notebook has not been scrolled for so long. */
const SAVE_MS = 500;

/** Outputs above may still be rendered: the position is restored until it stays for a second. */
const STEP_MS = 100;
const STABLE_STEPS = 10;
const MAX_STEPS = 50;

/** What says that the user scrolls: the notebook is theirs from then on. */
const INPUTS = ['wheel', 'touchstart', 'pointerdown', 'keydown'] as const;

/** What is used here of a cell. */
export interface ICell {
  readonly model: { readonly id: string };
  readonly node: HTMLElement;
}

/** What is used here of a notebook. */
export interface INotebook {
  readonly widgets: readonly ICell[];
  readonly outerNode: HTMLElement;
  activeCellIndex: number;
  readonly activeCellChanged: ISignal<unknown, unknown>;
  scrollToItem(index: number, align: 'start'): Promise<void>;
}

/** What is used here of a notebook's panel. */
type IPanel = Widget & { readonly content: INotebook; readonly revealed: Promise<void> };

/** Open each notebook where it was scrolled to when it was open last. */
export class ScrollRestoration implements DocumentRegistry.WidgetExtension, IDisposable {
  constructor(private readonly _positions: ScrollPositions) {}

  createNew(widget: Widget, context: DocumentRegistry.Context): IDisposable {
    const keeper = new Keeper(this._positions, widget as IPanel, context);
    this._keepers.add(keeper);
    widget.disposed.connect(() => this._keepers.remove(keeper));
    void keeper.run();
    return keeper;
  }

  get isDisposed(): boolean {
    return this._keepers.isDisposed;
  }

  dispose(): void {
    this._keepers.dispose();
  }

  private readonly _keepers = new DisposableSet();
}

class Keeper implements IDisposable {
  constructor(
    private readonly _positions: ScrollPositions,
    private readonly _panel: IPanel,
    private readonly _context: DocumentRegistry.Context
  ) {}

  get isDisposed(): boolean {
    return this._ended.signal.aborted;
  }

  dispose(): void {
    this._ended.abort();
    this._save.dispose();
    Signal.clearData(this);
  }

  /** Restore what was saved, then save what changes. */
  async run(): Promise<void> {
    try {
      await this._context.ready;
      await this._panel.revealed;
      const position = await this._positions.get(this._context.path);
      // A link to a heading or a cell says where to go.
      if (position && !window.location.hash) {
        await this._restore(position);
      }
    } catch (error) {
      console.debug('ec2spawner: a notebook is not scrolled to where it was', error);
    }
    if (!this.isDisposed) {
      const { outerNode, activeCellChanged } = this._panel.content;
      const { signal } = this._ended;
      outerNode.addEventListener('scroll', () => void this._save.invoke(), {
        signal,
        passive: true
      });
      activeCellChanged.connect(() => void this._save.invoke(), this);
    }
  }

  private async _restore({ cell, offset, active }: IScrollPosition): Promise<void> {
    const notebook = this._panel.content;
    const activeIndex = indexOf(notebook, active);
    if (activeIndex >= 0) {
      notebook.activeCellIndex = activeIndex;
    }
    const taken = new AbortController();
    for (const input of INPUTS) {
      const options = { signal: taken.signal, capture: true, passive: true };
      document.addEventListener(input, () => taken.abort(), options);
    }
    const isOver = (): boolean => taken.signal.aborted || this.isDisposed;
    try {
      let stable = 0;
      for (let step = 0; step < MAX_STEPS && stable < STABLE_STEPS && !isOver(); step++) {
        const index = indexOf(notebook, cell);
        if (index < 0) {
          return; // deleted since
        }
        stable = (await scrollTo(notebook, index, offset)) ? stable + 1 : 0;
        await new Promise(resolve => setTimeout(resolve, STEP_MS));
      }
    } finally {
      taken.abort();
    }
  }

  private readonly _save = new Debouncer(async () => {
    const position = this.isDisposed ? null : currentPosition(this._panel.content);
    if (position) {
      await this._positions.set(this._context.path, position);
    }
  }, SAVE_MS);
  private readonly _ended = new AbortController();
}

/** Null while the notebook is hidden: a hidden one has no place. */
export function currentPosition(notebook: INotebook): IScrollPosition | null {
  const { outerNode, widgets, activeCellIndex } = notebook;
  if (outerNode.clientHeight === 0) {
    return null;
  }
  const top = outerNode.getBoundingClientRect().top;
  for (const cell of widgets) {
    if (cell.node.isConnected) {
      const box = cell.node.getBoundingClientRect();
      if (box.bottom > top) {
        const active = widgets[activeCellIndex]?.model.id ?? '';
        return { cell: cell.model.id, offset: Math.round(top - box.top), active };
      }
    }
  }
  return null;
}

/** Whether it was there already. */
async function scrollTo(notebook: INotebook, index: number, offset: number): Promise<boolean> {
  const { outerNode, widgets } = notebook;
  if (!widgets[index].node.isConnected) {
    await notebook.scrollToItem(index, 'start');
  }
  const before = outerNode.scrollTop;
  const top = outerNode.getBoundingClientRect().top;
  outerNode.scrollTop += widgets[index].node.getBoundingClientRect().top - top + offset;
  return Math.abs(outerNode.scrollTop - before) < 2;
}

function indexOf(notebook: INotebook, id: string): number {
  return notebook.widgets.findIndex(each => each.model.id === id);
}
