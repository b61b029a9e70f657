import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LastSave, LAST_SAVE_MS } from '../lib/notices/lastSave.js';

const MINUTE = 60_000;

function save(context) {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let count = 0;
  const last = new LastSave(() => (count += 1));
  const after = milliseconds => {
    context.mock.timers.tick(milliseconds);
    return count;
  };
  return { last, after };
}

test('documents are saved shortly before the end', context => {
  const { last, after } = save(context);
  last.expect(10 * MINUTE);
  assert.equal(after(10 * MINUTE - LAST_SAVE_MS - 1), 0);
  assert.equal(after(1), 1);
  assert.equal(after(MINUTE), 1);
});

test('an end that moves moves the save', context => {
  const { last, after } = save(context);
  last.expect(10 * MINUTE);
  assert.equal(after(9 * MINUTE), 0);
  last.expect(61 * MINUTE);
  assert.equal(after(61 * MINUTE - LAST_SAVE_MS - 1), 0, 'not at the time of before');
  assert.equal(after(1), 1);
});

test('an end that is withdrawn, unknown or too near is not saved before', context => {
  const { last, after } = save(context);
  last.expect(10 * MINUTE);
  last.expect(null);
  assert.equal(after(20 * MINUTE), 0);
  last.expect(LAST_SAVE_MS);
  assert.equal(after(MINUTE), 0, 'the notice has saved a moment ago');
  last.expect(10 * MINUTE);
  last.dispose();
  assert.equal(after(20 * MINUTE), 0);
});
