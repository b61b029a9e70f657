import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ResponseOrder } from '../lib/api/responseOrder.js';

test('an earlier question that is answered later brings back nothing', () => {
  const newest = new ResponseOrder();
  const [first, second] = [newest.ask(), newest.ask()];
  assert.equal(newest.takes(second, 2000), true);
  assert.equal(newest.takes(first, 1000), false);
  assert.equal(newest.takes(newest.ask(), 3000), true);
});

test('an earlier question may have the later answer', () => {
  const newest = new ResponseOrder();
  const [first, second] = [newest.ask(), newest.ask()];
  assert.equal(newest.takes(second, 1000), true);
  assert.equal(newest.takes(first, 2000), true);
});

test('after an earlier question with a later answer, an older answer is still old', () => {
  const newest = new ResponseOrder();
  const [first, second, third] = [newest.ask(), newest.ask(), newest.ask()];
  assert.equal(newest.takes(third, 1000), true);
  assert.equal(newest.takes(first, 3000), true);
  assert.equal(newest.takes(second, 2000), false);
});

test('a clock that is set back, however far, keeps no answer away', () => {
  const newest = new ResponseOrder();
  for (const at of [100_000, 90_000, 5]) {
    assert.equal(newest.takes(newest.ask(), at), true);
  }
});
