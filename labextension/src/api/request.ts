import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type { IReply, ISentence } from './wire/index.js';

/** Longer than the slowest honest answer: the hub is asked for an extension and for a stop. */
const TIMEOUT_MS = 15_000;

/**
 * Call this extension's part of the notebook server.
 *
 * @throws RefusedError when the server refuses.
 * @throws ServerConnection.NetworkError or a DOMException, when there is no answer in time.
 */
export async function request(
  serverSettings: ServerConnection.ISettings,
  path:
    | Question
    | 'cluster'
    | 'runs'
    | 'extend'
    | 'idle'
    | 'stop'
    | 'sleep'
    | 'continue'
    | 'input'
    | 'saved'
    | 'outputs',
  body?: unknown
): Promise<unknown> {
  const url = URLExt.join(serverSettings.baseUrl, 'ec2spawner/api') + `/${path}`;
  const init: RequestInit = { signal: AbortSignal.timeout(TIMEOUT_MS) };
  if (!isQuestion(path)) {
    init.method = 'POST';
    init.body = JSON.stringify(body ?? {});
  }
  const response = await ServerConnection.makeRequest(url, init, serverSettings);
  const answer = parsed(await response.text());
  if (!response.ok) {
    throw new RefusedError(response, answer);
  }
  return answer;
}

type Question =
  'status' | 'hardware' | 'cluster?' | `history?since=${number}` | `outputs?path=${string}`;

function isQuestion(path: string): path is Question {
  return path === 'status' || path === 'hardware' || path.includes('?');
}

/** The server refused, and may have said why. */
export class RefusedError extends ServerConnection.ResponseError {
  constructor(response: Response, answer: unknown) {
    const message = (answer as { message?: unknown } | null)?.message;
    super(response, typeof message === 'string' ? message : response.statusText);
    this.sentence = sentenceOf(answer);
  }

  readonly sentence: ISentence | null;
}

/** What an answer says for people, if anything; none where a proxy answered in its place. */
export function sentenceOf(answer: unknown): ISentence | null {
  return (answer as Partial<IReply> | null)?.sentence ?? null;
}

/** JSON, or nothing where a proxy answered with a page of its own. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
