import assert from 'node:assert/strict';
import { test } from 'node:test';

import { connectionLostText } from '../lib/text/connectionLostText.js';
import { stateOf } from '../lib/model/state.js';
import { announcement, movingSentence } from '../lib/text/serverText.js';
import { trans } from './trans.js';

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

test('while the server responds there is no dialog', () => {
  assert.equal(connectionLostText(view({ phase: 'live' }), false, trans), null);
  assert.equal(connectionLostText(view({ phase: 'loading', status: null }), false, trans), null);
});

test('without an agent JupyterLab shows its own dialog', () => {
  assert.equal(connectionLostText(view({}, { managed: false }), false, trans), null);
});

test('a server that is silent for an unknown reason cannot be started', () => {
  for (const silent of [view(), view({ end: end({ running: true, stop: null }) })]) {
    const { kind, level, startable } = connectionLostText(silent, false, trans);
    assert.deepEqual([kind, level, startable], ['away', 'warning', false]);
  }
});

test('a server that was stopped says when and why, and can be started by its owner', () => {
  const lost = connectionLostText(view({ end: end() }), false, trans);
  assert.deepEqual([lost.kind, lost.level, lost.startable], ['stopped', 'error', true]);
  assert.match(lost.text, /^This server was stopped at .*\nAWS reclaimed this instance\.$/);
  const shared = connectionLostText(view({ end: end() }, { can_control: false }), false, trans);
  assert.equal(shared.startable, false);
});

test('a requested stop is no error', () => {
  const asked = end({ stop: { reason: 'user', message: '' } });
  assert.equal(connectionLostText(view({ end: asked }), false, trans).level, 'warning');
});

test('a user with unsaved changes is asked to leave the page open', () => {
  assert.match(connectionLostText(view({ end: end() }), true, trans).text, /Keep this page open/);
  assert.match(connectionLostText(view(), true, trans).text, /Keep this page open/);
});

test('a server that continues elsewhere is not started again by hand', () => {
  const moving = view({ end: end({ continues: true }) });
  const lost = connectionLostText(moving, true, trans);
  assert.match(lost.text, /^Your session continues on another machine/);
  assert.match(lost.text, /Keep this page open/);
  assert.deepEqual([lost.kind, lost.level, lost.startable], ['away', 'warning', false]);
  assert.equal(stateOf(moving).kind, 'moving');
  assert.equal(announcement(moving, trans), movingSentence(trans));
});

test('what AWS has reclaimed continues, also before the hub has said so', () => {
  const interruption_at = new Date(NOW - 1000).toISOString();
  const announced = { interruption_at, files_kept: true };
  assert.equal(stateOf(view({}, { ...announced, continues: true })).kind, 'moving');
  assert.equal(stateOf(view({}, { ...announced, continues: false })).kind, 'stopped');
  const saved = { reason: 'interruption', message: '', sleep: 'interruption' };
  assert.equal(stateOf(view({}, { stop: saved })).kind, 'moving');
  assert.equal(stateOf(view({ end: end() }, { stop: saved })).kind, 'stopped');
});

test('a session that sleeps can be woken from the page that is still open', () => {
  const asked = { reason: 'user', message: '', sleep: 'user' };
  const asleep = view({ end: end({ stop: asked, asleep: true }) }, { stop: asked });
  const lost = connectionLostText(asleep, false, trans);
  assert.match(lost.text, /^Your session has been asleep since .*\nYou requested it\.$/);
  assert.deepEqual([lost.startable, lost.wakes], [true, true]);
  const nothing = view({ end: end({ stop: asked, asleep: false }) }, { stop: asked });
  assert.match(connectionLostText(nothing, false, trans).text, /^This server was stopped/);
  assert.equal(connectionLostText(nothing, false, trans).wakes, false);
});
