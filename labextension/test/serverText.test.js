import assert from 'node:assert/strict';
import { test } from 'node:test';

import { sentenceText } from '../lib/text/sentenceText.js';
import {
  announcement,
  sentences,
  sharedSentence,
  troubleSentences
} from '../lib/text/serverText.js';
import { DEFAULT_SETTINGS } from '../lib/settings.js';
import { parts as partsOf } from '../lib/text/statusItemText.js';
import { timeOfDay } from '../lib/text/format.js';
import { endLabels, savedByStopping, stopText } from '../lib/text/stopText.js';
import { canControl, costAt, keepChoices, nextKeep, stateOf } from '../lib/model/state.js';
import { trans } from './trans.js';

const NOW = Date.UTC(2026, 10, 20, 12, 0);
const MINUTE = 60_000;
const at = minutes => new Date(NOW + minutes * MINUTE).toISOString();
const plain = texts => texts.map(text => text.replace(/[\u2007\u00a0 ]+/g, ' '));

const BUSY = { code: 'kernel-running', params: { name: 'train.ipynb' } };
const FULL = { code: 'home-full', params: { gib: 100 } };

const gpu = (changes = {}) => ({
  index: 0,
  name: 'NVIDIA A10G',
  use_percent: 80,
  memory_used_mib: 11444,
  memory_total_mib: 22888,
  ...changes
});

const parts = (view, form, trans, changes = {}) =>
  partsOf({ view, form, settings: { ...DEFAULT_SETTINGS, ...changes }, trans });

const keep = (minutes, changes = true) => ({ until: at(minutes), changes });

function view(changes = {}, phase = 'live') {
  const status = {
    now: at(0),
    managed: true,
    can_control: true,
    agent_connected: true,
    hub_reachable: true,
    cost: {
      usd: 1.37,
      usd_per_hour: 0.42,
      known_usd: 1.37,
      known_usd_per_hour: 0.42,
      unknown_prices_of: [],
      limits: [],
      as_of: at(0),
      since: at(-60),
      estimate: true,
      market: 'spot',
      on_demand_usd_per_hour: 1.006
    },
    idle_policy: { server_seconds: 3600, user_may_extend_seconds: 14400 },
    idleness: { idle_since: null, stop_at: null, warn_at: null, busy: BUSY },
    telemetry: { gpu_source: 'nvml', gpus: [gpu()] },
    stop: null,
    full_disks: [],
    notices: [],
    keep: [keep(60, false), keep(120), keep(240)],
    ...changes
  };
  return { phase, status, now: NOW, problem: '', end: null };
}

const idle = (stopsIn, warn = 10) => ({
  idle_since: at(-50),
  stop_at: at(stopsIn),
  warn_at: at(stopsIn - warn),
  busy: null
});

const WORKERS = {
  count: 2,
  running: 2,
  usd: 3.4,
  usd_per_hour: 1.06,
  known_usd: 3.4,
  known_usd_per_hour: 1.06,
  as_of: at(0)
};

test('the workers of a cluster are part of what the status item shows', () => {
  const { cost } = view().status;
  const withWorkers = view({ cost: { ...cost, workers: WORKERS } });
  assert.equal(plain(parts(withWorkers, 'wide', trans)).at(1), '$4.77 · $1.48/h with 2 workers');
  assert.equal(plain(parts(withWorkers, 'medium', trans)).at(1), '$4.77');
  const said = sentences(withWorkers, trans).join(' ');
  assert.match(said, /This server has cost \$4\.77 \(USD, estimate\)/);
  assert.match(said, /Of that: server \$1\.37 \+ workers \$3\.40\./);
  assert.match(said, /It costs \$0\.42 per hour \(spot\)\..*Besides: 2 workers at \$1\.06\/h\./);
});

test('what a stop saves counts the workers, and is said where nothing is lost', () => {
  const { cost } = view().status;
  const warned = { idleness: idle(30), cost: { ...cost, workers: WORKERS } };
  assert.equal(savedByStopping(view(warned)).toFixed(2), '0.74');
  assert.deepEqual(endLabels(0.74, false, trans).stop, 'Stop now, save $0.74');
  assert.deepEqual(endLabels(0.74, true, trans), {
    sleep: 'Sleep now, save $0.74',
    stop: 'Stop now…'
  });
});

test('cost counts from its own instant and never backwards', () => {
  const cost = view().status.cost;
  assert.equal(costAt(cost, NOW + 60 * MINUTE), 1.37 + 0.42);
  assert.equal(costAt(cost, NOW - 60 * MINUTE), 1.37);
  assert.equal(costAt({ ...cost, usd: null }, NOW), null);
  const unpriced = { ...cost, usd_per_hour: null, known_usd_per_hour: null };
  assert.equal(costAt(unpriced, NOW + 60 * MINUTE), 1.37);
});

test('the most severe state wins', () => {
  const kinds = changes => stateOf(view(changes)).kind;
  const stop = { reason: 'idle', message: '' };
  assert.equal(kinds({}), 'in-use');
  assert.equal(kinds({ idleness: null }), 'unknown');
  assert.equal(kinds({ idleness: idle(55) }), 'idle');
  assert.equal(kinds({ idleness: idle(55), hub_reachable: false }), 'hub-silent');
  assert.equal(kinds({ idleness: idle(9), hub_reachable: false }), 'warned');
  assert.equal(kinds({ full_disks: [FULL], hub_reachable: false }), 'disk-full');
  assert.equal(kinds({ full_disks: [FULL], idleness: idle(9) }), 'warned');
  assert.equal(kinds({ idleness: idle(9), agent_connected: false }), 'agent-silent');
  const taken = { interruption_at: at(2) };
  assert.equal(kinds({ ...taken, idleness: idle(9), agent_connected: false }), 'interrupted');
  assert.equal(kinds({ ...taken, stop }), 'stopping');
  assert.equal(kinds({ stop, agent_connected: false }), 'stopping');
  assert.equal(stateOf(view({ stop }, 'away')).kind, 'stopped');
  assert.equal(stateOf(view({}, 'away')).kind, 'away');
  assert.equal(stateOf(view(taken, 'away')).kind, 'stopped');
  const ended = { running: false, stop, ended_at: at(-1) };
  assert.equal(stateOf({ ...view({}, 'away'), end: ended }).kind, 'stopped');
  assert.equal(
    stateOf({ ...view({ stop }, 'away'), end: { ...ended, running: true } }).kind,
    'away'
  );
  assert.equal(stateOf({ phase: 'loading', status: null, now: 0 }).kind, 'loading');
});

test('a stop is shown with its reason, local time, and its end', () => {
  const sentence = (phase, stop) => sentences(view({ stop, idleness: idle(-1) }, phase), trans)[0];
  const idleStop = { reason: 'idle', message: 'It had been idle for 1 hour' };
  const since = /It had been idle since (?!.*UTC)/;
  assert.match(sentence('live', idleStop), /^This server is being stopped\. /);
  assert.match(sentence('live', idleStop), since);
  assert.match(sentence('away', idleStop), /^This server has been stopped\. It had been idle/);
  const requested = { reason: 'user', message: 'You stopped it from the notebook', by: '' };
  assert.equal(sentence('away', requested), 'This server has been stopped. You requested it.');
  const failed = { reason: 'failed', message: '', by: '' };
  assert.equal(sentence('away', failed), 'This server has been stopped.');
});

test('for a stopped server the hub reports when and why', () => {
  const stop = { reason: 'interruption', message: 'AWS reclaimed the machine' };
  const gone = { ...view({}, 'away'), end: { running: false, stop, ended_at: at(-1) } };
  const clock = timeOfDay(NOW - MINUTE, NOW);
  assert.equal(
    sentences(gone, trans)[0],
    `This server was stopped at ${clock}. AWS reclaimed this instance.`
  );
  const text = ['$1.37', 'stopped'];
  assert.deepEqual(parts(gone, 'wide', trans), text);
  assert.equal(sentences(gone, trans).length, 2, 'what happened and what it has cost');
});

test('an unresponsive server is not reported as staying on', () => {
  const away = view({}, 'away');
  assert.ok(!sentences(away, trans).some(text => text.includes('train.ipynb')));
  assert.equal(stopText(away, trans).sentence, '');
  const taken = view({ interruption_at: at(-1) }, 'away');
  assert.ok(!sentences(taken, trans).some(text => /save your work/i.test(text)));
});

test('a stopping server is never reported as staying on', () => {
  const stop = { reason: 'user', message: 'You pressed Stop now.' };
  const ends = [view({ stop }), view({ stop }, 'away'), view({ interruption_at: at(2) })];
  for (const each of ends) {
    const { sentence, kept } = stopText(each, trans);
    assert.ok(![...sentences(each, trans), sentence].some(text => text.includes('stays on')));
    assert.match(kept, /^Files are kept/);
  }
  assert.equal(stopText(ends[0], trans).sentence, sentences(ends[0], trans)[0]);
  assert.match(stopText(ends[2], trans).sentence, /The cell running in train\.ipynb will be inter/);
});

test('a full disk is shown beside an unreachable hub', () => {
  const full = view({ full_disks: [FULL], hub_reachable: false });
  assert.equal(sentences(full, trans)[0], sentenceText(FULL, trans));
  assert.match(sentences(full, trans)[1], /^Hub unreachable/);
  assert.ok(parts(full, 'narrow', trans).includes('disk full'));
});

test('max age shows a warning even on an active server', () => {
  const idleness = { ...idle(5), idle_since: null };
  assert.equal(stateOf(view({ idleness })).kind, 'warned');
});

test('a screen reader hears words and no numbers', () => {
  const heard = [view(), view({ idleness: idle(5) }), view({ idleness: idle(50) })];
  heard.push(view({ hub_reachable: false }), view({}, 'away'));
  const texts = heard.map(each => announcement(each, trans));
  assert.ok(
    texts.every(text => text !== '' && !/\d/.test(text)),
    texts.join('\n')
  );
  assert.equal(new Set(texts).size, texts.length);
});

test('a spot interruption counts down, and cannot be extended', () => {
  const taken = view({ interruption_at: at(2), idleness: idle(9) });
  assert.deepEqual(parts(taken, 'narrow', trans), ['$1.37', 'reclaimed in 2:00']);
  assert.match(sentences(taken, trans)[0], /Save your work now.* Files are kept/);
  assert.match(
    sentences(view({ interruption_at: at(2), files_kept: false }), trans)[0],
    /Files are lost/
  );
  assert.doesNotMatch(announcement(taken, trans), /\d/);
  assert.equal(nextKeep(taken), null);
  const { headline, urgent, kept } = stopText(taken, trans);
  assert.deepEqual([headline, urgent], ['in 2 min 00 s', true]);
  assert.match(kept, /Files are kept/);
});

test('several GPUs are shown as one', () => {
  const gpus = [gpu({ use_percent: 100 }), gpu({ use_percent: 50 })];
  const shown = plain(parts(view({ telemetry: { gpu_source: 'nvml', gpus } }), 'wide', trans));
  assert.equal(shown[0], '2× A10G 75 % · 24.0/48 GB');
});

test('a number that one GPU does not report is left out', () => {
  const gpus = [gpu(), gpu({ use_percent: null })];
  const shown = plain(parts(view({ telemetry: { gpu_source: 'nvml', gpus } }), 'wide', trans));
  assert.equal(shown[0], '2× A10G · 24.0/48 GB');
});

test('without a GPU the CPU is shown', () => {
  const telemetry = {
    gpu_source: 'none',
    gpus: [],
    cpu_percent: 12,
    memory_used_mib: 2048,
    memory_total_mib: 16384
  };
  const shown = plain(parts(view({ telemetry }), 'wide', trans));
  assert.equal(shown[0], 'CPU 12 % · 2.0/16 GB');
});

test('a narrow item shows the cost, and the countdown when it matters', () => {
  assert.deepEqual(parts(view(), 'narrow', trans), ['$1.37']);
  const warned = parts(view({ idleness: idle(9) }), 'narrow', trans);
  assert.deepEqual(warned, ['$1.37', 'stops in 9:00']);
});

test('far from the stop no seconds are shown', () => {
  assert.equal(parts(view({ idleness: idle(55) }), 'wide', trans).at(-1), 'stops in 55 min');
});

test('an unknown price is unknown, never zero', () => {
  const cost = { ...view().status.cost, usd_per_hour: null, known_usd_per_hour: null };
  const shown = [...parts(view({ cost }), 'wide', trans), ...sentences(view({ cost }), trans)];
  assert.ok(shown.includes('$1.37 · price unknown'));
  assert.ok(shown.includes('Its current price is not known.'));
  const nothing = [
    ...parts(view({ cost: null }), 'wide', trans),
    ...sentences(view({ cost: null }), trans)
  ];
  assert.ok(nothing.includes('cost unknown'));
  assert.ok(!nothing.some(text => text.includes('$')));
});

test('what is known of a price is said with what is not', () => {
  const unknown = { usd: null, usd_per_hour: null, unknown_prices_of: ['disk'] };
  const cost = { ...view().status.cost, ...unknown };
  assert.ok(
    parts(view({ cost }), 'wide', trans).includes('at least $1.37 · at least $0.42/h spot')
  );
  const [spent, price, why] = sentences(view({ cost }), trans);
  assert.match(spent, /^This server has cost at least \$1\.37 /);
  assert.equal(price, 'It costs at least $0.42 per hour (spot).');
  assert.match(why, /^Unknown: the price of its disk\./);
});

test('a billed amount is not marked as an estimate', () => {
  const cost = { ...view().status.cost, estimate: false };
  assert.ok(
    sentences(view({ cost }), trans)[0].startsWith('This server has cost $1.37 (USD) since')
  );
});

test('an extension ends at the next useful instant', () => {
  const until = found => found.map(each => (each.until - NOW) / MINUTE);
  assert.deepEqual(until(keepChoices(view())), [60, 120, 240]);
  assert.equal(nextKeep(view()), NOW + 120 * MINUTE);
  assert.equal(nextKeep(view({ keep: [keep(60, false)] })), null);
  assert.deepEqual(keepChoices(view({ managed: false })), []);
  assert.equal(nextKeep({ status: null, now: NOW }), null);
});

test('a tab that was hidden offers no past instant', () => {
  const later = { ...view(), now: NOW + 130 * MINUTE };
  assert.equal(nextKeep(later), NOW + 240 * MINUTE);
});

test('users whom a server is shared with get no buttons, and see whose they are', () => {
  const shared = { can_control: false, idleness: idle(9) };
  assert.equal(canControl(view().status), true);
  assert.equal(canControl(view(shared).status), false);
  assert.equal(nextKeep(view(shared)), null);
  const said = sharedSentence(view(shared).status, trans);
  assert.ok(sentences(view(shared), trans).includes(said));
  assert.ok(!sentences(view({ idleness: idle(9) }), trans).includes(said));
  assert.ok(!sentences(view({ ...shared, managed: false }), trans).includes(said));
});

test('a stop by a limit is announced wherever the server is described', () => {
  const limit = { scope: 'group', name: 'lab', kind: 'usd_per_month', stop_at: at(9) };
  const limited = { cost: { ...view().status.cost, limits: [limit] }, idleness: idle(30) };
  assert.deepEqual(stateOf(view(limited)), { kind: 'limited', stopAt: Date.parse(at(9)), limit });
  assert.equal(stateOf(view({ ...limited, idleness: idle(5) })).kind, 'warned', 'the nearer stop');
  const none = { statusBarUsage: false, statusBarCost: false, statusBarState: false };
  assert.deepEqual(plain(parts(view(limited), 'wide', trans, none)), ['stops in 9:00']);
  assert.ok(sentences(view(limited), trans).some(text => text.startsWith('It stops at ')));
  const shown = stopText(view(limited), trans);
  assert.equal(shown.headline, 'in 9 min 00 s');
  assert.equal(shown.sentence, 'By then the limit of group lab is used up.');
});

test('the status bar shows the figures that were chosen, and always an imminent stop', () => {
  const shown = (changes, status = {}, form = 'wide') =>
    plain(parts(view(status), form, trans, changes));
  const [usage, cost, state] = shown({});
  assert.deepEqual(shown({ statusBarUsage: false }), [cost, state]);
  assert.deepEqual(shown({ statusBarCost: false }), [usage, state]);
  assert.deepEqual(shown({ statusBarState: false }), [usage, cost]);
  assert.deepEqual(shown({ statusBarCost: false }, {}, 'narrow'), ['GPU 80 %']);
  const none = { statusBarUsage: false, statusBarCost: false, statusBarState: false };
  assert.deepEqual(shown(none), []);
  assert.deepEqual(shown(none, { idleness: idle(9) }), ['stops in 9:00']);
});

test('what AWS has announced of the instance is said with what follows', () => {
  const seconds = Date.UTC(2026, 11, 3, 9) / 1000;
  const notice = {
    kind: 'scheduled-event',
    title: { code: 'aws-reboots', params: { at: seconds } },
    details: [{ code: 'continues-before', params: {} }]
  };
  const when = timeOfDay(1000 * seconds, Date.now());
  assert.deepEqual(troubleSentences(view({ notices: [notice] }), trans).filter(Boolean), [
    `AWS reboots this instance at ${when}. ` +
      'Ten minutes before, your server continues on another machine.'
  ]);
});
