import assert from 'node:assert/strict';
import { test } from 'node:test';

import { withOwners } from '../lib/model/ownersNotices.js';

const notice = (id, kind, until = null, details = []) => ({ id, kind, until, details });
const ids = notices => notices.map(each => each.id);

test('an event withdraws nothing that is for the owner only', () => {
  const known = [notice('message-1', 'message'), notice('limit-75', 'budget')];
  assert.deepEqual(ids(withOwners([notice('idle-1', 'idle')], known)), [
    'idle-1',
    'message-1',
    'limit-75'
  ]);
});

test('an event withdraws what guests are notified of too', () => {
  const known = [notice('idle-1', 'idle', 'then'), notice('limit-stop-1', 'budget', 'then')];
  assert.deepEqual(withOwners([], known), []);
});

test('a stop keeps the reason that the owner has read', () => {
  const full = notice('limit-stop-1', 'budget', 'then', ['whose', 'files']);
  assert.deepEqual(withOwners([notice('limit-stop-1', 'budget', 'then', ['files'])], [full]), [
    full
  ]);
});

test("an event leaves the owner what it does not carry of the owner's money and session", () => {
  const known = ['session', 'price', 'credit'].map(kind => notice(`${kind}-1`, kind));
  assert.deepEqual(ids(withOwners([], known)), ['session-1', 'price-1', 'credit-1']);
});
