import assert from 'node:assert/strict';
import { test } from 'node:test';

import { connectionLostText } from '../lib/text/connectionLostText.js';
import { colouredState, stateOf } from '../lib/model/state.js';
import { announcement, movingSentence } from '../lib/text/serverText.js';
import { trans } from './trans.js';

const NOW = Date.UTC(2026, 10, 20, 12, 0);
const stop = { reason: 'interruption', message: 'AWS reclaimed the machine' };
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

/** What is said, with these documents unsaved. */
const lostText = (seen, unsaved = [], isHolding = false) =>
  connectionLostText(seen, unsaved, isHolding, trans);

/** What a toast of JupyterLab shows of it. */
const SHOWN_CHARS = 140;

test('while the server responds there is no dialog', () => {
  assert.equal(lostText(view({ phase: 'live' })), null);
  assert.equal(lostText(view({ phase: 'loading', status: null })), null);
});

test('without an agent JupyterLab shows its own dialog', () => {
  assert.equal(lostText(view({}, { managed: false })), null);
});

test('a server that is silent for an unknown reason cannot be started', () => {
  for (const silent of [view(), view({ end: end({ running: true, stop: null }) })]) {
    const { kind, level, startable } = lostText(silent);
    assert.deepEqual([kind, level, startable], ['away', 'warning', false]);
  }
});

test('a server that was stopped says when and why, and can be started by its owner', () => {
  const lost = lostText(view({ end: end() }));
  assert.deepEqual([lost.kind, lost.level, lost.startable], ['stopped', 'error', true]);
  assert.match(lost.text, /^This server was stopped at .*\nAWS reclaimed this instance\.$/);
  const shared = lostText(view({ end: end() }, { can_control: false }));
  assert.equal(shared.startable, false);
});

test('a requested stop is no error', () => {
  const asked = end({ stop: { reason: 'user', message: '' } });
  assert.equal(lostText(view({ end: asked })).level, 'warning');
});

test('unsaved changes come first in every toast, and are never cut off', () => {
  const asked = { reason: 'idle', message: '', sleep: 'idle' };
  const states = [
    view(),
    view({ end: end() }),
    view({ end: end({ continues: true }) }),
    view({ end: end({ stop: asked, asleep: true }) }),
    view({ end: end({ stop: null, ended_at: null }) })
  ];
  for (const state of states) {
    const { text } = lostText(state, ['deep/train.ipynb']);
    assert.match(text, /^Unsaved changes in train\.ipynb: keep this page open\.\n/);
    assert.ok(text.length < SHOWN_CHARS, text);
    const long = lostText(state, [`${'long-'.repeat(20)}-copy-2.ipynb`]).text;
    assert.match(long.slice(0, SHOWN_CHARS), /^Unsaved changes in \S+-2\.ipynb: keep .*\n.*\w{5}/);
    assert.match(lostText(state, ['a.py', 'b.py']).text, /^Unsaved changes in 2 files: /);
  }
});

test('what is typed after the last save before a stop is unsaved while the server still runs', () => {
  const stopping = sleep =>
    view({ phase: 'live' }, { stop: { reason: 'user', message: '', sleep } });
  assert.equal(lostText(stopping(null), ['train.ipynb'], false), null, 'it is still to be saved');
  assert.equal(lostText(stopping(null), [], true), null);
  const { kind, level, text } = lostText(stopping(null), ['train.ipynb'], true);
  assert.deepEqual([kind, level], ['away', 'warning']);
  assert.match(
    text,
    /open\.\nThis server is being stopped\. They are saved as soon as it runs again/
  );
  assert.match(
    lostText(stopping('user'), ['a.py'], true).text,
    /Your session is being saved\. They/
  );
});

test('a server that continues elsewhere is not started again by hand', () => {
  const moving = view({ end: end({ continues: true }) });
  const lost = lostText(moving, ['train.ipynb']);
  assert.match(lost.text, /^Unsaved .*\nYour session continues on another machine/);
  assert.match(lostText(moving).text, /^Your session continues on another machine/);
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
  const lost = lostText(asleep);
  assert.match(
    lost.text,
    /^Your session has been asleep since .*\nFiles and variables are kept; wake your session when/
  );
  assert.equal(lost.level, 'success');
  assert.equal(colouredState(asleep), 'asleep');
  assert.equal(lostText(asleep, ['train.ipynb']).level, 'warning', 'of what is not saved');
  for (const [stop, can_control, said] of [
    [{ ...asked, reason: 'admin', by: 'root' }, true, /\nThe admin root requested it\.$/],
    [{ ...asked, reason: 'hub', by: 'culler' }, true, /\nThe service culler requested it\.$/],
    [asked, false, /\nIts owner requested it\.$/]
  ]) {
    const byOther = view({ end: end({ stop, asleep: true }) }, { stop, can_control });
    assert.equal(lostText(byOther).level, 'warning');
    assert.match(lostText(byOther).text, said);
    assert.equal(colouredState(byOther), 'stopped');
  }
  const idle = { ...asked, reason: 'idle', sleep: 'idle' };
  const byItself = view({ end: end({ stop: idle, asleep: true }) }, { stop: idle });
  assert.equal(lostText(byItself).level, 'warning', 'nobody asked for that');
  assert.equal(colouredState(byItself), 'stopped');
  assert.deepEqual([lost.startable, lost.wakes], [true, true]);
  const nothing = view({ end: end({ stop: asked, asleep: false }) }, { stop: asked });
  assert.match(lostText(nothing).text, /^This server was stopped/);
  assert.equal(lostText(nothing).wakes, false);
});

test('a server that refuses the login says to sign in, what is unsaved first', () => {
  const signedOut = view({ isSignedOut: true, end: end({ running: true, stop: null }) });
  const { kind, text, startable } = lostText(signedOut);
  assert.deepEqual([kind, startable], ['signed-out', false]);
  assert.match(text, /^Sign in again: /);
  const dirty = lostText(signedOut, ['train.ipynb']).text;
  assert.match(dirty, /^Unsaved changes in train.ipynb: keep this page open.\nSign in again: /);
  assert.ok(dirty.length <= SHOWN_CHARS, dirty);
  assert.equal(announcement(signedOut, trans), text);
  assert.equal(lostText(view({ isSignedOut: true, end: end() })).kind, 'stopped');
});

test('a guest reads that the server may be shared no more', () => {
  const signedOut = view({ isSignedOut: true }, { can_control: false });
  const { kind, text } = lostText(signedOut);
  assert.equal(kind, 'signed-out');
  assert.match(text, /no longer shared with you/);
  const dirty = lostText(signedOut, ['train.ipynb']).text;
  assert.ok(dirty.length <= SHOWN_CHARS, dirty);
  const owners = lostText(view({ isSignedOut: true }));
  assert.doesNotMatch(owners.text, /shared/);
});
