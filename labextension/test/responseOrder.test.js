import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ResponseOrder } from '../lib/api/responseOrder.js';

test('a late response to an earlier request restores nothing', () => {
  const newest = new ResponseOrder();
  const [first, second] = [newest.ask(), newest.ask()];
  assert.equal(newest.takes(second, 2000), true);
  assert.equal(newest.takes(first, 1000), false);
  assert.equal(newest.takes(newest.ask(), 3000), true);
});

test('an earlier request may have the later response', () => {
  const newest = new ResponseOrder();
  const [first, second] = [newest.ask(), newest.ask()];
  assert.equal(newest.takes(second, 1000), true);
  assert.equal(newest.takes(first, 2000), true);
});

test('after an earlier request with a later response, an older response is still outdated', () => {
  const newest = new ResponseOrder();
  const [first, second, third] = [newest.ask(), newest.ask(), newest.ask()];
  assert.equal(newest.takes(third, 1000), true);
  assert.equal(newest.takes(first, 3000), true);
  assert.equal(newest.takes(second, 2000), false);
});

test('a clock set back does not block responses', () => {
  const newest = new ResponseOrder();
  for (const at of [100_000, 90_000, 5]) {
    assert.equal(newest.takes(newest.ask(), at), true);
  }
});

test('of several requests at once, whose responses are lost, one counts', () => {
  const newest = new ResponseOrder();
  const [first, second] = [newest.ask(), newest.ask()];
  assert.equal(newest.counts(second), true);
  assert.equal(newest.counts(first), false);
  assert.equal(newest.counts(newest.ask()), true);
});
