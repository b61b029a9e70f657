import type { ServerConnection } from '@jupyterlab/services';

import { request } from './request.js';

/** A person who works is reported at most this often. */
const REPORT_EVERY_MS = 30_000;

/**
 * Tell the server that a person is at work here. An open tab is none: only keys and pointers
 * count, and only those that the browser itself vouches for.
 *
 * @param isAnswering - Whether the server answers at all.
 */
export function reportInput(
  serverSettings: ServerConnection.ISettings,
  isAnswering: () => boolean
): void {
  let reportedAt = -Infinity;
  const onInput = (event: Event): void => {
    const now = performance.now();
    if (!event.isTrusted || now - reportedAt < REPORT_EVERY_MS || !isAnswering()) {
      return;
    }
    reportedAt = now;
    // A lost report is made good by the next key.
    request(serverSettings, 'input').catch(() => undefined);
  };
  for (const type of ['keydown', 'pointerdown', 'wheel']) {
    document.addEventListener(type, onInput, { capture: true, passive: true });
  }
}
