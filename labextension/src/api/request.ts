import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

/** Longer than the slowest honest answer: the hub is asked for an extension and for a stop. */
const TIMEOUT_MS = 15_000;

/**
 * Call this extension's part of the notebook server.
 *
 * @throws ServerConnection.ResponseError with the server's own words, when it refuses.
 * @throws ServerConnection.NetworkError or a DOMException, when there is no answer in time.
 */
export async function request(
  serverSettings: ServerConnection.ISettings,
  path: Question | 'extend' | 'idle' | 'stop' | 'input' | 'saved',
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
    throw new ServerConnection.ResponseError(response, messageOf(answer) ?? response.statusText);
  }
  return answer;
}

type Question = 'status' | `history?since=${number}`;

function isQuestion(path: string): path is Question {
  return path === 'status' || path.startsWith('history?');
}

/** The words for people in an answer, if there are any. */
export function messageOf(answer: unknown): string | undefined {
  const message = (answer as { message?: unknown } | null)?.message;
  return typeof message === 'string' && message ? message : undefined;
}

/** JSON, or nothing where a proxy answered with a page of its own. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
