/** Notices that are for the owner of a server only. Pure. */

import type { INotice } from '../api/wire/index.js';

/** An admin's message, the session and what it costs: in the owner's status, in no event. */
const OWNERS: readonly INotice['kind'][] = ['message', 'session', 'price', 'credit'];

function isOwners({ kind, until }: INotice): boolean {
  return OWNERS.includes(kind) || (kind === 'budget' && until === null);
}

/** In an event these lack whose limit it is. */
const SHORTENED: readonly INotice['kind'][] = ['budget', 'stopping'];

/**
 * The notices of an event, which guests hear too, with what this page knows as the owner's: that
 * holds until the next status says otherwise.
 */
export function withOwners(heard: readonly INotice[], known: readonly INotice[]): INotice[] {
  const fuller = (notice: INotice): INotice | undefined =>
    known.find(each => each.id === notice.id && SHORTENED.includes(each.kind));
  return [...heard.map(notice => fuller(notice) ?? notice), ...known.filter(isOwners)];
}
