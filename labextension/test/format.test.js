import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as format from '../lib/text/format.js';
import { trans } from './trans.js';

const plain = text => text.replace(/[\u2007\u00a0]/g, ' ');
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

test('percentages have the width of three digits', () => {
  assert.deepEqual([7, 42.4, 100].map(format.percent).map(plain), ['  7 %', ' 42 %', '100 %']);
});

test('a positive cost is never shown as zero', () => {
  assert.equal(format.usd(0), '$0.000');
  assert.equal(format.usd(0.0004), '<$0.001');
  assert.equal(format.usd(0.137), '$0.137');
  assert.equal(format.usd(1.37), '$1.37');
  assert.equal(format.usd(1234.5), '$1234.50');
});

test('a price has significant digits', () => {
  const prices = [55.04, 0.42, 0.0416, 0.0052, 0].map(format.usdPerHour);
  assert.deepEqual(prices, ['$55.04/h', '$0.42/h', '$0.042/h', '$0.0052/h', '$0.00/h']);
});

test('a countdown ends at zero', () => {
  const times = [-5, 0, 1, 9 * MINUTE + 41 * SECOND, HOUR - 1, HOUR + 4 * MINUTE + 9 * SECOND];
  const shown = ['0:00', '0:00', '0:01', '9:41', '1:00:00', '1:04:09'];
  assert.deepEqual(times.map(format.countdown), shown);
});

test('durations are translated', () => {
  const shown = milliseconds => format.duration(milliseconds, trans);
  assert.equal(shown(59 * SECOND), '59 seconds');
  assert.equal(shown(1 * SECOND), '1 second');
  assert.equal(shown(MINUTE), '1 minute');
  assert.equal(shown(50 * MINUTE), '50 minutes');
  assert.equal(shown(HOUR), '1 hour');
  assert.equal(shown(2 * HOUR + 5 * MINUTE), '2 hours 5 minutes');
});

test('short durations round, and are in seconds below a minute', () => {
  const shown = milliseconds => format.shortDuration(milliseconds, trans);
  assert.equal(shown(-SECOND), '0 s');
  assert.equal(shown(45.9 * SECOND), '45 s');
  assert.equal(shown(59.9 * SECOND), '59 s');
  assert.equal(shown(MINUTE), '1 min');
  assert.equal(shown(HOUR - SECOND), '1 h');
  assert.equal(shown(2 * HOUR + 5 * MINUTE), '2 h 5 min');
});

test('a time on another day has its date', () => {
  const at = Date.UTC(2026, 10, 20, 11, 42);
  const today = format.timeOfDay(at, at + HOUR, 'UTC');
  const later = format.timeOfDay(at, at + 24 * HOUR, 'UTC');
  assert.match(today, /^11:42/);
  assert.ok(later.endsWith(today) && later.includes('20'));
});

test('GPUs have the names that people use', () => {
  const names = {
    'NVIDIA A10G': 'A10G',
    'Tesla T4': 'T4',
    'NVIDIA A100-SXM4-40GB': 'A100',
    'NVIDIA A100 80GB PCIe': 'A100',
    'NVIDIA H100 80GB HBM3': 'H100',
    'NVIDIA GeForce RTX 4090': 'RTX 4090',
    'NVIDIA L40S': 'L40S',
    T4: 'T4'
  };
  for (const [name, model] of Object.entries(names)) {
    assert.equal(format.gpuModel(name), model);
  }
});

test("GPU memory is the vendor's figure", () => {
  // MiB as EC2 lists them and as drivers report them.
  const sold = {
    15360: '16', // T4, driver
    16384: '16', // T4, EC2
    22888: '24', // A10G, EC2
    23028: '24', // A10G, driver
    40960: '40', // A100
    46068: '48', // L40S, driver
    81559: '80', // H100, driver
    143771: '140' // H200 (sold as 141), driver
  };
  for (const [mib, gb] of Object.entries(sold)) {
    const total = Number(mib);
    const text = plain(format.memory(0, total, format.mibPerGb(total)));
    assert.match(text, new RegExp(`/${gb} GB$`), `${mib} MiB`);
  }
});
