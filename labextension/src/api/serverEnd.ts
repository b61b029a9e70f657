import type { IServerEnd } from './wire/index.js';

const TIMEOUT_MS = 15_000;

/**
 * Ask the hub whether the server still runs, and why not.
 *
 * @param address - What the server said while it ran; it needs no login, and gets no cookie.
 * @throws where the hub does not answer, or does not know that server any more.
 */
export async function askEnd(address: string): Promise<IServerEnd> {
  const init: RequestInit = { credentials: 'omit', signal: AbortSignal.timeout(TIMEOUT_MS) };
  const response = await fetch(address, init);
  if (!response.ok) {
    throw new Error(`The hub answers ${response.status}`);
  }
  return (await response.json()) as IServerEnd;
}
