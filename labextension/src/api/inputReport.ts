import type { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';

import { request } from './request.js';

/** Input is reported at most this often. */
const REPORT_INTERVAL_MS = 30_000;

const EVENTS = ['keydown', 'pointerdown', 'wheel'];

/**
 * Report to the server that a person is using this page, until disposed. An open tab does not
 * count: only keys and pointers do, and only events that the browser itself trusts.
 *
 * @param isAnswering - Whether the server responds at all.
 */
export function reportInput(
  serverSettings: ServerConnection.ISettings,
  isAnswering: () => boolean
): IDisposable {
  let reportedAt = -Infinity;
  const onInput = (event: Event): void => {
    const now = performance.now();
    if (!event.isTrusted || now - reportedAt < REPORT_INTERVAL_MS || !isAnswering()) {
      return;
    }
    reportedAt = now;
    // The next key makes up for a lost report.
    request(serverSettings, 'input').catch(() => undefined);
  };
  for (const type of EVENTS) {
    document.addEventListener(type, onInput, { capture: true, passive: true });
  }
  return new DisposableDelegate(() => {
    for (const type of EVENTS) {
      document.removeEventListener(type, onInput, { capture: true });
    }
  });
}
