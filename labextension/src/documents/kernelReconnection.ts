import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { Signal, type ISignal } from '@lumino/signaling';

import type { IWake } from '../api/wire/index.js';
import type { IView } from '../model/statusModel.js';

/** For so long after the server is back kernels may still be starting. */
const WATCH_MS = 60_000;

/** A connection that is not there after so long is begun anew: JupyterLab's next try may be far. */
const RETRY_MS = 5_000;

/** What is used here of the connection to a kernel. */
export type IConnection = Pick<Kernel.IKernelConnection, 'connectionStatus' | 'reconnect'>;

/** An open notebook or console. */
export interface IOpenKernel {
  readonly kernel: IConnection;
  /** Of its file. */
  readonly path: string;
}

/** What is used here of the model. */
export interface IWatched {
  readonly view: Pick<IView, 'phase' | 'status'>;
  readonly changed: ISignal<unknown, void>;
}

/**
 * Reconnect kernels at once when the server answers again, or answers from another machine.
 *
 * JupyterLab itself tries again after up to a minute, and not at all where the server has closed the
 * connection in order, as one does that sleeps. A kernel that is yet to be woken is not asked for: its
 * absence would begin JupyterLab's pauses again.
 */
export function reconnectKernels(
  model: IWatched,
  kernels: () => Iterable<IOpenKernel>,
  now: () => number = () => performance.now()
): IDisposable {
  const tried = new WeakMap<IConnection, number>();
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
      until = now() + WATCH_MS;
    }
    wake = id;
    isAway = false;
    if (now() >= until) {
      return;
    }
    for (const { kernel, path } of kernels()) {
      const isDue = now() - (tried.get(kernel) ?? -Infinity) >= RETRY_MS;
      if (kernel.connectionStatus !== 'connected' && isDue && isThere(path, status.wake)) {
        tried.set(kernel, now());
        kernel.reconnect().catch((error: unknown) => {
          tried.delete(kernel);
          console.debug('ec2spawner: a kernel is not back yet', error);
        });
      }
    }
  };
  const slot = new DisposableDelegate(() => Signal.clearData(slot));
  model.changed.connect(look, slot);
  return slot;
}

/** False while a kernel that slept is still to be started. */
function isThere(path: string, wake: IWake | null): boolean {
  const woken = wake?.kernels.find(each => each.path === path);
  return woken?.state !== 'waiting' && woken?.state !== 'starting';
}

/** The kernels of all open notebooks and consoles. */
export function* openKernels(shell: JupyterFrontEnd.IShell): Generator<IOpenKernel> {
  for (const widget of shell.widgets()) {
    const { sessionContext } = widget as { sessionContext?: ISessionContext };
    const kernel = sessionContext?.session?.kernel;
    if (sessionContext && kernel) {
      yield { kernel, path: sessionContext.path };
    }
  }
}
