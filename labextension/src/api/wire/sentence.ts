/** What the server has to say, as codes with parameters. */

/** The parameters of each sentence that a server may send, by its code. */
export interface ISentenceParameters {
  'kernel-running': { name: string };
  'kernel-starting': { name: string };
  'terminal-running': { name: string };
  'gpu-in-use': { name: string };
  'cpu-in-use': { name: string };
  'gpu-driver-silent': object;
  'gpu-driver-updated': object;
  'gpu-driver-forbidden': object;
  'gpu-driver-not-installed': object;
  'gpu-driver-not-loaded': object;
  'gpu-driver-failed': { detail: string };
  'home-full': { gib: number };
  'home-without-inodes': object;
  'system-disk-full': { gib: number };
  'system-disk-without-inodes': object;
  'folder-bytes': { folder: string; bytes: number };
  'folder-files': { folder: string; files: number };
  stopping: object;
  'stopping-by-admin': object;
  stops: object;
  sleeps: object;
  'session-saving': object;
  'session-moving': object;
  'server-moving': object;
  'spot-reclaim': object;
  'gpus-unreadable': object;
  'gpu-lost': { index: number };
  'gpu-memory-errors': { index: number };
  'gpu-xid': { index: number };
  'disk-full': object;
  'limit-share': { percent: number; scope: string; name: string };
  'limit-used-up': { scope: string; name: string };
  'limit-exceeded': { scope: string; name: string };
  'gpu-unused': { count: number };
  'admin-message': object;
  rebalance: object;
  'session-back': { count: number; kernels: number };
  'session-not-back': object;
  'documents-saved': object;
  'session-continues': object;
  'session-continues-soon': object;
  'server-continues': object;
  'server-continues-soon': object;
  'files-not-kept': object;
  'save-now': object;
  'files-kept': object;
  'session-sleeps': object;
  'files-lost': object;
  'max-age': { seconds: number };
  xid: { number: number };
  'replace-server': object;
  'contact-admin': object;
  'results-wrong': object;
  'replace-server-if-it-persists': object;
  'contact-admin-if-it-persists': object;
  'limit-amount': { kind: string; used: number; limit: number; at_least: boolean };
  'limit-forecast': { at: number };
  'limit-stops': { scope: string; name: string };
  'limit-runs': { kind: string; used: number; limit: number };
  'limit-no-start': object;
  'profile-without-gpu': { files_kept: boolean };
  'message-text': { text: string };
  'spot-may-end': object;
  'session-later': { count: number };
  'session-lost': { count: number };
  'session-older': { at: number };
  'extension-bounded': object;
  'limit-not-extended': { scope: string; name: string; at: number };
  'idle-time-bounded': { min_seconds: number; max_seconds: number; seconds: number };
  refused: { detail: string };
  'run-invalid': { detail: string };
  'hub-silent': object;
  'hub-timeout': object;
  'agent-silent': object;
  'agent-gone': object;
  'not-managed': object;
  'owner-only': object;
  'not-stopping': object;
  'invalid-request': object;
}

/** What the server has to say, as a code with parameters; `text/sentenceText.ts` words it. */
export type ISentence = {
  [Code in keyof ISentenceParameters]: { code: Code; params: ISentenceParameters[Code] };
}[keyof ISentenceParameters];
