import assert from 'node:assert/strict';
import { test } from 'node:test';

import { HOUR_SECONDS, merged, since, summary } from '../lib/model/history.js';

const hour = (at, values, gpus = [0]) => ({
  step_seconds: 5,
  at,
  cpu_percent: values,
  memory_percent: values,
  gpus: gpus.map(index => ({ index, name: '', use_percent: values, memory_percent: values }))
});

test('new samples are appended without repetition', () => {
  const known = hour([1000, 1005, 1010], [1, 2, 3]);
  const all = merged(known, hour([1010, 1015], [30, 4]));
  assert.deepEqual(all.at, [1000, 1005, 1010, 1015]);
  assert.deepEqual(all.cpu_percent, [1, 2, 3, 4]);
  assert.deepEqual(all.gpus[0].use_percent, [1, 2, 3, 4]);
  assert.equal(since(all), 1015);
  assert.equal(since(null), 0);
});

test('an empty response changes nothing', () => {
  const known = hour([1000, 1005], [1, 2]);
  assert.deepEqual(merged(known, hour([], [])), known);
});

test('samples older than an hour are dropped', () => {
  const known = hour([1000, 1005, 1010], [1, 2, 3]);
  const all = merged(known, hour([1005 + HOUR_SECONDS], [4]));
  assert.deepEqual(all.at, [1010, 1005 + HOUR_SECONDS]);
  assert.deepEqual(all.memory_percent, [3, 4]);
});

test('another instance starts a new history', () => {
  const known = hour([1000, 1005], [1, 2]);
  assert.deepEqual(merged(known, hour([1010], [3], [0, 1])).at, [1010]);
  assert.deepEqual(merged(known, hour([995, 1000], [3, 4])).at, [995, 1000]);
});

test('unmeasured samples are not counted', () => {
  assert.deepEqual(summary([null, 10, 30, null]), { mean: 20, max: 30 });
  assert.equal(summary([null]), null);
  assert.equal(summary([]), null);
});
