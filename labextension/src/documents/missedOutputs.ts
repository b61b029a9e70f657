import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { ServerConnection } from '@jupyterlab/services';
import { JSONExt, type JSONValue } from '@lumino/coreutils';
import { DisposableSet, type IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import { request } from '../api/request.js';
import type { IView, StatusModel } from '../model/statusModel.js';

/** Between two requests while a cell that a closed page began still runs. */
const POLL_MS = 2000;

/** Large outputs are requested less often: at most a tenth of the time goes to them. */
const PACE = 10;

/** A cell that a page began which is closed now. */
export interface IMissedExecution {
  id: string;
  cell_id: string;
  execution_count: number | null;
  is_running: boolean;
  outputs: unknown[];
}

/** What a shared code cell has of what is used here; only notebooks are opened by this factory. */
export interface ISharedCell {
  readonly cell_type: string;
  getId(): string;
  getOutputs(): unknown[];
  setOutputs(outputs: unknown[]): void;
  clearOutputs(): void;
  execution_count: number | null;
  executionState: 'idle' | 'running';
}

/** Show in a notebook what its cells have printed since the page that ran them was closed. */
export class MissedOutputs implements DocumentRegistry.WidgetExtension, IDisposable {
  constructor(
    private readonly _serverSettings: ServerConnection.ISettings,
    private readonly _model: StatusModel
  ) {}

  createNew(widget: Widget, context: DocumentRegistry.Context): IDisposable {
    const follower = new Follower(this._serverSettings, this._model, widget, context);
    this._followers.add(follower);
    widget.disposed.connect(() => this._followers.remove(follower));
    void follower.run();
    return follower;
  }

  get isDisposed(): boolean {
    return this._followers.isDisposed;
  }

  dispose(): void {
    this._followers.dispose();
  }

  private readonly _followers = new DisposableSet();
}

/** Notes when a session has woken: its cells may run again, which no page has asked for. */
export class WakeWatch {
  /** True once for each session that has woken; a server that was away may have woken another. */
  hasWoken({ phase, status }: Pick<IView, 'phase' | 'status'>): boolean {
    const wake = phase === 'live' ? status?.wake : null;
    const woken = wake?.state === 'done' ? wake.id : '';
    const isNew = woken !== '' && woken !== this._woken;
    this._woken = woken;
    return isNew;
  }

  private _woken = '';
}

class Follower implements IDisposable {
  constructor(
    private readonly _serverSettings: ServerConnection.ISettings,
    private readonly _model: StatusModel,
    private readonly _widget: Widget,
    private readonly _context: DocumentRegistry.Context
  ) {
    this._model.changed.connect(this._onStatus, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  private _onStatus(): void {
    if (this._isOver()) {
      this.dispose();
    } else if (this._wakes.hasWoken(this._model.view)) {
      void this.run();
    }
  }

  /** Until no cell runs whose page is gone; a server that cannot say is not asked again. */
  async run(): Promise<void> {
    if (this._isRunning) {
      return;
    }
    this._isRunning = true;
    try {
      await this._context.ready;
      while (!this._isOver()) {
        const began = performance.now();
        if (!(await this._apply())) {
          return;
        }
        const took = performance.now() - began;
        await new Promise(resolve => setTimeout(resolve, Math.max(POLL_MS, PACE * took)));
      }
    } catch (error) {
      console.debug('ec2spawner: no outputs of closed pages', error);
    } finally {
      this._isRunning = false;
    }
  }

  private _isOver(): boolean {
    return this._isDisposed || this._widget.isDisposed || this._context.isDisposed;
  }

  /** Whether a cell is still running. */
  private async _apply(): Promise<boolean> {
    const path = encodeURIComponent(this._context.localPath);
    const answer = await request(this._serverSettings, `outputs?path=${path}`);
    const { executions } = answer as { executions: IMissedExecution[] };
    if (this._isOver() || executions.length === 0) {
      return false;
    }
    const { sharedModel } = this._context.model as unknown as {
      sharedModel: { cells: readonly ISharedCell[] };
    };
    showMissed(sharedModel.cells, executions);
    const ids = executions.filter(each => !each.is_running).map(each => each.id);
    if (ids.length > 0) {
      // The server keeps them until the file has them.
      await this._context.save();
      await request(this._serverSettings, 'outputs', { ids });
    }
    return executions.some(each => each.is_running);
  }

  private readonly _wakes = new WakeWatch();
  private _isRunning = false;
  private _isDisposed = false;
}

/** Put the outputs into the cells that are still there. */
export function showMissed(
  cells: readonly ISharedCell[],
  executions: readonly IMissedExecution[]
): void {
  const byId = new Map(cells.map(cell => [cell.getId(), cell]));
  for (const execution of executions) {
    const cell = byId.get(execution.cell_id);
    if (cell?.cell_type === 'code') {
      if (!JSONExt.deepEqual(cell.getOutputs() as JSONValue, execution.outputs as JSONValue)) {
        // Cleared on its own: JupyterLab adds a new stream to the old one, then removes both.
        cell.clearOutputs();
        cell.setOutputs(execution.outputs);
      }
      cell.execution_count = execution.execution_count;
      cell.executionState = execution.is_running ? 'running' : 'idle';
    }
  }
}
