import type { JupyterFrontEnd } from '@jupyterlab/application';

import type { IWorker } from '../api/wire/index.js';

interface IPlace {
  command: string;
  args: { path: string } | { name: string };
}

/** Brings the document or terminal of a worker to the front. */
export class WorkerOpener {
  constructor(private readonly app: JupyterFrontEnd) {}

  /** True where the worker has a place of its own in this browser's JupyterLab or Notebook. */
  canOpen(worker: IWorker): boolean {
    return this._place(worker) !== null;
  }

  open(worker: IWorker): void {
    const place = this._place(worker);
    if (place) {
      void this.app.commands.execute(place.command, place.args);
    }
  }

  openNotebook(path: string): void {
    void this.app.commands.execute('docmanager:open', { path });
  }

  private _place(worker: IWorker): IPlace | null {
    const place = this._wanted(worker);
    return place && this.app.commands.hasCommand(place.command) ? place : null;
  }

  private _wanted(worker: IWorker): IPlace | null {
    if (worker.terminal) {
      return { command: 'terminal:open', args: { name: worker.terminal } };
    }
    if (!worker.kernel_id) {
      return null;
    }
    // What the server calls a kernel may be out of date by the rename of a notebook.
    for (const session of this.app.serviceManager.sessions.running()) {
      if (session.kernel?.id === worker.kernel_id) {
        const command = session.type === 'console' ? 'console:open' : 'docmanager:open';
        return { command, args: { path: session.path } };
      }
    }
    return null;
  }
}
