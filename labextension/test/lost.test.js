import assert from 'node:assert/strict';
import { test } from 'node:test';

import { lostText } from '../lib/lostText.js';

const words = {
  __: (text, ...values) => text.replace(/%(\d)/g, (_, index) => values[index - 1]),
  _n: (one, many, count, ...values) => words.__(count === 1 ? one : many, ...values)
};
const NOW = Date.UTC(2026, 10, 20, 12, 0);
const stop = { reason: 'interruption', message: 'AWS took the machine back' };
const end = (changes = {}) => ({
  running: false,
  stop,
  ended_at: new Date(NOW - 60_000).toISOString(),
  ...changes
});

const view = (changes = {}, status = {}) => ({
  phase: 'away',
  status: { managed: true, can_control: true, stop: null, ...status },
  now: NOW,
  problem: '',
  end: null,
  ...changes
});

test('while the server answers nothing is lost', () => {
  assert.equal(lostText(view({ phase: 'live' }), false, words), null);
  assert.equal(lostText(view({ phase: 'loading', status: null }), false, words), null);
});

test('without an agent JupyterLab says it', () => {
  assert.equal(lostText(view({}, { managed: false }), false, words), null);
});

test('a server of which nobody knows why it is silent cannot be started', () => {
  for (const silent of [view(), view({ end: end({ running: true, stop: null }) })]) {
    const { kind, level, startable } = lostText(silent, false, words);
    assert.deepEqual([kind, level, startable], ['away', 'warning', false]);
  }
});

test('a server that was stopped says when and why, and can be started by its owner', () => {
  const lost = lostText(view({ end: end() }), false, words);
  assert.deepEqual([lost.kind, lost.level, lost.startable], ['stopped', 'error', true]);
  assert.match(lost.text, /^This server was stopped at .*\nAWS took the machine back\.$/);
  const shared = lostText(view({ end: end() }, { can_control: false }), false, words);
  assert.equal(shared.startable, false);
});

test('a stop that somebody asked for is no error', () => {
  const asked = end({ stop: { reason: 'user', message: '' } });
  assert.equal(lostText(view({ end: asked }), false, words).level, 'warning');
});

test('who has changes that are not saved is asked to leave the page open', () => {
  assert.match(lostText(view({ end: end() }), true, words).text, /Leave this page open/);
  assert.match(lostText(view(), true, words).text, /Leave this page open/);
});
