import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { Signal, type ISignal } from '@lumino/signaling';

import type { IView } from '../model/statusModel.js';

/** For so long after the server is back kernels may still be starting. */
const WATCH_MS = 60_000;

/** What is used here of the connection to a kernel. */
export type IConnection = Pick<Kernel.IKernelConnection, 'connectionStatus' | 'reconnect'>;

/** What is used here of the model. */
export interface IWatched {
  readonly view: Pick<IView, 'phase' | 'status'>;
  readonly changed: ISignal<unknown, void>;
}

/**
 * Reconnect kernels at once when the server answers again, or answers from another machine.
 *
 * JupyterLab itself tries again after up to a minute, and not at all where the server has closed the
 * connection in order, as one does that sleeps.
 */
export function reconnectKernels(
  model: IWatched,
  kernels: () => Iterable<IConnection>
): IDisposable {
  const trying = new Set<IConnection>();
  let wake: string | undefined;
  let isAway = false;
  let until = -Infinity;
  const look = (): void => {
    const { phase, status } = model.view;
    if (phase !== 'live' || !status) {
      isAway = phase === 'away';
      return;
    }
    const id = status.wake?.id ?? '';
    // Two looks may be longer apart than a server is away.
    if (isAway || (wake !== undefined && id !== wake)) {
      until = performance.now() + WATCH_MS;
    }
    wake = id;
    isAway = false;
    if (performance.now() < until) {
      for (const kernel of kernels()) {
        void reconnect(kernel, trying);
      }
    }
  };
  const slot = new DisposableDelegate(() => Signal.clearData(slot));
  model.changed.connect(look, slot);
  return slot;
}

async function reconnect(kernel: IConnection, trying: Set<IConnection>): Promise<void> {
  if (kernel.connectionStatus === 'connected' || trying.has(kernel)) {
    return;
  }
  trying.add(kernel);
  try {
    await kernel.reconnect();
  } catch (error) {
    console.debug('ec2spawner: a kernel is not back yet', error);
  } finally {
    trying.delete(kernel);
  }
}

/** The kernels of all open notebooks and consoles. */
export function* openKernels(shell: JupyterFrontEnd.IShell): Generator<IConnection> {
  for (const widget of shell.widgets()) {
    const { sessionContext } = widget as { sessionContext?: ISessionContext };
    const kernel = sessionContext?.session?.kernel;
    if (kernel) {
      yield kernel;
    }
  }
}
