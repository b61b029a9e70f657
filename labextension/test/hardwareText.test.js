import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hardwareText, moveText, presentPriceText } from '../lib/text/hardwareText.js';
import { trans } from './trans.js';

const GIB = 2 ** 30;
const plain = text => text.replace(/[\u2007\u00a0 ]+/g, ' ').trim();

const choice = (changes = {}) => ({
  profile: 'a10g',
  name: 'A10G, 24 GB',
  usd_per_hour: 0.31,
  market: 'spot',
  is_available: true,
  refusal: '',
  memory_bytes: 16 * GIB,
  gpu_memory_bytes: 24 * GIB,
  ...changes
});

const status = (usedMib, memoryMib = 1024) => ({
  telemetry: {
    gpu_source: 'nvml',
    memory_used_mib: memoryMib,
    gpus: [{ name: 'T4', use_percent: 1, memory_used_mib: usedMib, memory_total_mib: 16384 }]
  }
});

const notes = (changes, of) => hardwareText(choice(changes), of, trans).notes.map(plain);

test('a choice names its price and market', () => {
  const text = hardwareText(choice(), status(0), trans);
  assert.equal(text.price, '$0.31/h, spot');
  assert.deepEqual(text.notes, []);
  assert.equal(
    hardwareText(choice({ usd_per_hour: null }), null, trans).price,
    'price unknown, spot'
  );
});

test('what does not fit is said, and what is unknown is not', () => {
  const used = status(8192);
  assert.deepEqual(notes({ gpu_memory_bytes: 0 }, used), [
    'No GPU: what is on the GPU comes back in main memory.'
  ]);
  assert.deepEqual(notes({ gpu_memory_bytes: 4 * GIB }, used), [
    '8.6 GB of GPU memory are in use; this has 4.3 GB.'
  ]);
  assert.deepEqual(notes({ gpu_memory_bytes: 0 }, status(null)), []);
  assert.deepEqual(notes({}, null), []);
  assert.deepEqual(notes({ memory_bytes: GIB }, status(0, 2048)), [
    '2.1 GB of memory are in use; this has 1.1 GB.'
  ]);
  assert.deepEqual(notes({ memory_bytes: 0 }, status(0, 2048)), []);
});

test('what is sold out may be tried, and what is refused may not', () => {
  assert.deepEqual(notes({ is_available: false }), ['Sold out when last checked.']);
  const refused = hardwareText(
    choice({ is_available: false, refusal: 'limit reached' }),
    null,
    trans
  );
  assert.equal(refused.refusal, 'limit reached');
  assert.deepEqual(refused.notes, []);
});

test('a move says what happens, and that nothing has where it failed', () => {
  const move = (state, message = '') => moveText({ state, profile_name: 'A10G', message }, trans);
  assert.equal(move('none'), '');
  assert.match(move('looking'), /^Looking for A10G/);
  assert.match(move('booting'), /^A10G is booting/);
  assert.match(move('moving'), /being saved/);
  assert.equal(move('failed', 'sold out'), 'Your server stays as it is: sold out');
});

test('a choice that costs much more than now says how many times as much', () => {
  const at = usd_per_hour => ({ ...status(0), cost: { usd_per_hour, market: 'spot' } });
  assert.deepEqual(notes({ usd_per_hour: 0.5 }, at(0.2)), ['2.5 times the price of now.']);
  assert.deepEqual(notes({ usd_per_hour: 0.25 }, at(0.2)), []);
  assert.equal(presentPriceText(at(0.2), trans), 'Now: $0.20/h, spot.');
  assert.equal(presentPriceText(at(null), trans), '');
});
