import assert from 'node:assert/strict';
import { test } from 'node:test';

import { costText } from '../lib/text/costText.js';
import {
  clockText,
  gpusTitle,
  gpuTroubles,
  heatText,
  diskName,
  diskUse,
  memoryText,
  shownWorkers,
  workerName,
  workerUse
} from '../lib/text/instanceText.js';
import { announced, noticeText } from '../lib/text/noticeText.js';
import {
  choices,
  keepNote,
  oneLimit,
  policySentences,
  savedByStopping,
  stopText
} from '../lib/text/stopText.js';
import { trans } from './trans.js';

const plain = text => text.replace(/[\u2007\u00a0 ]+/g, ' ').trim();
const NOW = Date.UTC(2026, 10, 20, 12, 0);
const MINUTE = 60_000;
const at = minutes => new Date(NOW + minutes * MINUTE).toISOString();

const cost = (changes = {}) => ({
  usd: 1.37,
  usd_per_hour: 0.42,
  known_usd: 1.37,
  known_usd_per_hour: 0.42,
  unknown_prices_of: [],
  as_of: at(0),
  since: at(-60),
  estimate: true,
  market: 'spot',
  on_demand_usd_per_hour: 1.006,
  price_source: 'a list',
  saved_usd: 1.92,
  today_usd: 4.2,
  month_usd: 62.1,
  known_today_usd: 4.2,
  known_month_usd: 62.1,
  credits: [],
  budget_usd: null,
  payer: 'user:ann',
  used_usd: 1.1,
  idle_usd: 0.2,
  limits: [],
  ...changes
});

const limit = (changes = {}) => ({
  scope: 'group',
  name: 'research',
  kind: 'usd_per_month',
  percent: 31,
  threshold: 25,
  limit: 200,
  used: 62.1,
  at_least: false,
  days: null,
  renews: '2026-12-01',
  reached_at: null,
  stops: true,
  stop_at: null,
  ...changes
});

const values = text => Object.fromEntries(text.lines.map(line => [line.name, line.value]));

test('the cost is shown with its parts', () => {
  const text = costText(cost(), NOW, trans);
  assert.equal(text.amount, '$1.37');
  assert.equal(text.mark, 'USD, estimate');
  assert.equal(values(text)['Now'], '$0.42/h, spot');
  assert.equal(values(text)['Saved by spot'], '$1.92');
  assert.equal(values(text)['Today'], '$4.20');
  assert.equal(values(text)['Used, idle'], '$1.10, $0.200');
  assert.equal(values(text)['November'], '$62.10');
  assert.equal(
    values(text)['Paid by'],
    undefined,
    'users see that they pay only where others could'
  );
  assert.equal(text.limit, null);
});

test('the payer and the nearest limit are shown with a forecast', () => {
  const of = changes =>
    costText(
      cost({ payer: 'group:a:b', limits: [limit(changes), limit({ scope: 'user' })] }),
      NOW,
      trans
    );
  assert.equal(values(of())['Paid by'], 'group a:b');
  assert.equal(values(of())['Limit (month)'], '$62.10 of $200');
  assert.deepEqual(of().limit, {
    percent: 31,
    label: '31 % of the limit of group research is used',
    forecast: ''
  });
  assert.match(of({ reached_at: at(90) }).limit.forecast, /^Used up at .* the server stops\.$/);
  assert.match(of({ reached_at: at(90), stops: false }).limit.forecast, /at this rate\.$/);
  assert.match(of({ reached_at: at(5), stop_at: at(5) }).limit.forecast, /^The server stops at /);
  const hub = of({ scope: 'hub', name: '', limit: null, used: null });
  assert.equal(values(hub)['Limit (month)'], '31 %');
  const hours = of({ kind: 'gpu_hours_per_month', used: 12.34, limit: 100 });
  assert.equal(values(hours)['Limit (month)'], '12.3 of 100 GPU-hours');
  const week = of({ kind: 'usd_per_window', days: 7, used: 5, limit: 50 });
  assert.equal(values(week)['Limit (7 days)'], '$5 of $50');
});

test('growing figures are extrapolated between responses', () => {
  const text = costText(cost(), NOW + 60 * MINUTE, trans);
  assert.equal(text.amount, '$1.79');
  assert.equal(values(text)['Today'], '$4.62');
  assert.equal(values(text)['November'], '$62.52');
  assert.equal(values(text)['Saved by spot'], '$2.51');
});

const workers = (changes = {}) => ({
  count: 2,
  running: 2,
  usd: 3.4,
  usd_per_hour: 1.06,
  known_usd: 3.4,
  known_usd_per_hour: 1.06,
  as_of: at(0),
  ...changes
});

test('the workers of a cluster count, and their part is named', () => {
  const text = costText(cost({ workers: workers() }), NOW, trans);
  assert.equal(text.amount, '$4.77');
  assert.match(text.caption, /^this server, since .*: server \$1\.37 \+ workers \$3\.40$/);
  assert.equal(values(text)['Now'], '$0.42/h, spot');
  assert.equal(values(text)['+ 2 workers'], '$1.06/h');
  const later = costText(cost({ workers: workers() }), NOW + 60 * MINUTE, trans);
  assert.equal(later.amount, '$6.25');
  assert.equal(values(later)['Today'], '$5.68', 'the sums of the user grow by their price, too');
  const after = cost({ workers: workers({ count: 0, running: 0, usd_per_hour: 0 }) });
  assert.equal(costText(after, NOW, trans).amount, '$4.77', 'what has ended has cost that');
  const kinds = costText(after, NOW, trans).lines.map(({ kind }) => kind);
  assert.ok(!kinds.includes('workers'), 'and costs nothing more');
});

test('workers whose price is unknown leave a lower bound', () => {
  const nothing = { usd: null, usd_per_hour: null, known_usd: null, known_usd_per_hour: null };
  const text = costText(cost({ workers: workers({ ...nothing, running: 1 }) }), NOW, trans);
  assert.equal(text.amount, 'at least $1.37');
  assert.match(text.caption, /: server \$1\.37 \+ workers at an unknown price$/);
  assert.equal(values(text)['+ 1 worker'], 'price unknown');
});

test('unknown figures are omitted or named, never zero', () => {
  const nothing = {
    usd: null,
    usd_per_hour: null,
    known_usd: null,
    known_usd_per_hour: null,
    unknown_prices_of: ['instance'],
    known_today_usd: null,
    known_month_usd: null,
    saved_usd: null,
    today_usd: null,
    used_usd: null
  };
  const text = costText(cost({ ...nothing, month_usd: null, market: null }), NOW, trans);
  assert.equal(text.amount, 'cost unknown');
  assert.equal(text.mark, '');
  assert.deepEqual(values(text), { Now: 'price unknown' });
  assert.equal(text.limit, null);
  assert.equal(costText(cost({ estimate: false }), NOW, trans).mark, 'USD');
  const kinds = isOver => costText(cost(), NOW, trans, isOver).lines.map(({ kind }) => kind);
  assert.ok(kinds(false).includes('price'));
  assert.ok(!kinds(true).includes('price'), 'a stopped server has no price per hour');
});

test('what is known of a cost is a lower bound, and grows', () => {
  const partly = cost({
    usd: null,
    usd_per_hour: null,
    today_usd: null,
    month_usd: null,
    unknown_prices_of: ['disk']
  });
  const text = costText(partly, NOW + 60 * MINUTE, trans);
  assert.equal(text.amount, 'at least $1.79');
  assert.equal(text.mark, 'USD, estimate');
  assert.equal(values(text)['Now'], 'at least $0.42/h, spot');
  assert.equal(values(text)['Today'], 'at least $4.62');
  assert.equal(values(text)['November'], 'at least $62.52');
  const { note } = text.lines.find(({ kind }) => kind === 'price');
  assert.match(note, /the price of its disk\..*pricing:GetProducts/);
});

const gpu = (changes = {}) => ({
  index: 0,
  name: 'NVIDIA A10G',
  memory_total_mib: 22888,
  temperature_c: 61,
  power_w: 212,
  power_limit_w: 300,
  clock_mhz: 1695,
  clock_max_mhz: 1710,
  slowed_by: [],
  ecc_corrected: 0,
  ecc_uncorrected: 0,
  xid: null,
  xid_at: null,
  lost: false,
  mig: [],
  ...changes
});

test('GPUs have a title', () => {
  const of = (...gpus) => gpusTitle({ gpu_source: 'nvml', gpus }, trans);
  assert.equal(of(gpu()), 'A10G · 24 GB');
  assert.equal(of(gpu(), gpu({ index: 1 })), '2 × A10G · 24 GB each');
  assert.equal(of(gpu({ name: '', memory_total_mib: null })), 'GPU');
  const simulated = gpusTitle({ gpu_source: 'simulated', gpus: [gpu()] }, trans);
  assert.equal(simulated, 'A10G · 24 GB · simulated');
});

test('heat, power and clocks are shown when known', () => {
  assert.equal(heatText(gpu(), trans), '61 °C · 212 of 300 W');
  assert.equal(plain(heatText(gpu({ power_w: 9, power_limit_w: null }), trans)), '61 °C · 9 W');
  assert.equal(heatText(gpu({ power_w: null, temperature_c: null }), trans), '');
  assert.equal(clockText(gpu(), trans), '1695 of 1710 MHz');
  const slowed = gpu({ slowed_by: ['power', 'heat', 'a reason of later'] });
  assert.equal(clockText(slowed, trans), '1695 MHz · slowed: power limit, heat');
  assert.equal(clockText(gpu({ clock_mhz: null, slowed_by: ['heat'] }), trans), 'slowed: heat');
  assert.equal(clockText(gpu({ clock_mhz: null }), trans), '');
});

test('problems of a GPU are worded', () => {
  const texts = changes => gpuTroubles(gpu(changes), NOW, trans).map(each => each.text);
  assert.deepEqual(texts({}), []);
  assert.deepEqual(texts({ ecc_corrected: 1 }), ['1 memory error was corrected.']);
  assert.match(texts({ ecc_uncorrected: 2 })[0], /^2 memory errors could not be corrected/);
  assert.match(texts({ xid: 79 })[0], /Xid 79/);
  assert.deepEqual(texts({ lost: true, xid: 79, ecc_corrected: 3 }).length, 1);
});

test('every number has the same width', () => {
  const used = [0, 5, 9.96, 24].map(gb => memoryText((gb * 1e9) / 2 ** 20, 22888, trans));
  assert.equal(new Set(used.map(text => text.length)).size, 1);
  assert.equal(memoryText(null, 22888, trans), '–');
  assert.equal(plain(memoryText(7400, 1179648, trans)), '7 of 1152 GB');
});

const worker = (changes = {}) => ({
  kind: 'kernel',
  name: 'work/train.ipynb',
  pid: 1,
  kernel_id: 'k',
  terminal: '',
  cpu_percent: 104,
  memory_mib: 2048,
  gpus: [0],
  gpu_percent: 81,
  gpu_memory_mib: 13200,
  ...changes
});

test('workers are listed with what they use', () => {
  assert.equal(workerName(worker(), trans), 'train.ipynb');
  const terminal = worker({ kind: 'terminal', name: 'python', terminal: '2' });
  assert.equal(workerName(terminal, trans), 'Terminal 2, python');
  assert.equal(workerName(worker({ kind: 'terminal', name: '' }), trans), 'Terminal');
  assert.equal(plain(workerUse(worker(), 1, trans)), '81 % · 12.9 GB');
  const several = worker({ gpus: [7, 0, 2, 1] });
  assert.equal(plain(workerUse(several, 8, trans)), 'GPU 0-2, 7 · 81 % · 12.9 GB');
  assert.equal(plain(workerUse(worker({ gpus: [] }), 1, trans)), 'CPU 104 % · 2.0 GB');
  assert.equal(workerUse(worker({ gpus: [], cpu_percent: null }), 1, trans), '');
});

test('the busiest workers are shown in a stable order', () => {
  const names = [...'hgfedcbaz'];
  const { shown, more } = shownWorkers([
    worker({ kind: 'program', name: 'p', gpus: [] }),
    ...names.map((name, pid) => worker({ name, pid }))
  ]);
  assert.equal(shown.map(each => each.name).join(''), 'bcdefghp');
  assert.equal(more, 2);
});

const policy = (changes = {}) => ({
  server_seconds: 3600,
  kernel_seconds: 0,
  user_may_extend_seconds: 14400,
  max_age_seconds: 0,
  silent_kernel_seconds: 0,
  working_hours: null,
  user_server_min_seconds: 0,
  user_server_max_seconds: 0,
  user_server_seconds: null,
  ...changes
});

test('the policy is described in plain words', () => {
  assert.match(policySentences(policy(), trans)[0], /^It stops after 1 hour idle: no/);
  const never = policySentences(policy({ server_seconds: 0 }), trans);
  assert.deepEqual(never, ['It does not stop when idle.']);
  const hours = { days: [4, 0, 1, 2, 3], from_minute: 480, to_minute: 1110, timezone: 'UTC' };
  const working = policy({ working_hours: { ...hours, server_seconds: 10800 } });
  assert.match(
    policySentences(working, trans)[0],
    /after 3 hours \(Mon–Fri 8:00–18:30, UTC\) or 1 hour \(at other times\) idle/
  );
  const all = policy({ max_age_seconds: 86400, kernel_seconds: 7200, silent_kernel_seconds: 60 });
  assert.equal(policySentences(all, trans).length, 4);
});

test('each disk has its space and its inodes', () => {
  const home = { kind: 'home', path: '/home/a', used_percent: 93, inodes_percent: 12 };
  const data = { kind: 'data', path: '/data/x', used_percent: 100, inodes_percent: null };
  const disks = [
    { ...home, is_writable: true },
    { ...data, is_writable: false }
  ];
  assert.deepEqual(
    disks.map(disk => [diskName(disk, trans), plain(diskUse(disk, trans))]),
    [
      ['Home', '93 %, inodes 12 %'],
      ['/data/x', '100 %']
    ]
  );
});

function view(changes = {}) {
  const status = {
    managed: true,
    can_control: true,
    agent_connected: true,
    hub_reachable: true,
    cost: cost(),
    idle_policy: policy(),
    idleness: { idle_since: at(-50), stop_at: at(10), warn_at: at(1), busy: null },
    stop: null,
    full_disks: [],
    ...changes
  };
  return { phase: 'live', status, now: NOW, problem: '' };
}

test('an idle server shows its stop, its idle time and what is kept', () => {
  const text = stopText(view(), trans);
  assert.equal(text.headline, 'in 10 min 00 s');
  assert.equal(text.urgent, false);
  assert.match(text.sentence, /^This server has been idle since /);
  assert.match(text.kept, /^Files are kept/);
  assert.equal(Math.round(text.passed), 83);
  const soon = { idle_since: at(-50), stop_at: at(0.5), warn_at: at(-1), busy: null };
  assert.equal(stopText(view({ idleness: soon }), trans).headline, 'in 30 s');
  assert.equal(stopText(view({ idleness: soon }), trans).urgent, true);
  const running = { code: 'kernel-running', params: { name: 'train.ipynb' } };
  const busy = { idle_since: null, stop_at: null, warn_at: null, busy: running };
  const kept = stopText(view({ idleness: busy, extended_until: at(60) }), trans);
  assert.equal(kept.headline, '');
  assert.equal(kept.sentence, 'train.ipynb is running, so this server stays on.');
  assert.match(kept.kept, /^You asked to keep it on until/);
  const byAdmin = { idleness: busy, extended_until: at(60), extended_by: 'ops' };
  assert.match(stopText(view(byAdmin), trans).kept, /^ops keeps it on until/);
  const shared = { idleness: busy, extended_until: at(60), can_control: false };
  assert.match(stopText(view(shared), trans).kept, /^Its owner asked to keep it on until/);
});

test('a stop that waits for no cell says beforehand whose variables are lost', () => {
  const sleeps = { idle_policy: policy({ then: 'sleep' }), files_kept: true };
  const limited = { cost: cost({ limits: [limit({ stop_at: at(5) })] }) };
  const old = { idleness: { idle_since: null, stop_at: at(5), warn_at: at(-1), busy: null } };
  for (const ends of [limited, old]) {
    const { kept } = stopText(view({ ...sleeps, ...ends }), trans);
    assert.match(kept, /unless a running cell ignores its interrupt for 10 s/);
  }
  assert.match(stopText(view(sleeps), trans).kept, /^Files and variables are kept;/);
});

test('a time to keep the server until says why it changes nothing', () => {
  const note = (changes, of) => keepNote(view(of), { until: NOW + 60 * MINUTE, changes }, trans);
  assert.equal(note(true), '');
  const late = { idle_since: at(-1), stop_at: at(120), warn_at: at(110), busy: null };
  assert.equal(note(false, { idleness: late }), 'This server does not stop before then.');
  assert.match(note(false), /maximum age/);
  const limited = { cost: cost({ limits: [limit({ stop_at: at(5) })] }) };
  assert.equal(
    note(false, limited),
    'By then the limit of group research is used up, and this server stops.'
  );
});

test('a stop now saves the rest of the idle time', () => {
  assert.equal(savedByStopping(view()).toFixed(2), '0.07');
  assert.equal(savedByStopping(view({ cost: cost({ usd_per_hour: null }) })), null);
  assert.equal(savedByStopping(view({ cost: null })), null);
});

test('the user chooses within the bounds of the policy, and only where they may', () => {
  const bounds = { user_server_min_seconds: 1200, user_server_max_seconds: 9000 };
  const offered = choices(view({ idle_policy: policy(bounds) }).status);
  assert.deepEqual(offered, [1200, 1800, 3600, 7200, 9000]);
  const young = policy({ ...bounds, max_age_seconds: 5400 });
  assert.deepEqual(choices(view({ idle_policy: young }).status), [1200, 1800, 3600, 5400]);
  assert.deepEqual(choices(view().status), []);
  assert.deepEqual(choices(view({ idle_policy: policy(bounds), can_control: false }).status), []);
  assert.deepEqual(choices(null), []);
});

test('one idle time applies when the user chose it or working hours have no other', () => {
  const hours = { working_hours: { server_seconds: 10800 } };
  assert.equal(oneLimit(policy()), 3600);
  assert.equal(oneLimit(policy(hours)), null);
  assert.equal(oneLimit(policy({ user_server_seconds: 3600 })), 3600);
  assert.equal(oneLimit(policy({ server_seconds: 0 })), null);
});

const notice = (changes = {}) => ({
  id: 'idle-1',
  kind: 'idle',
  level: 'warning',
  title: { code: 'stops', params: {} },
  details: [{ code: 'files-kept', params: {} }],
  stop: null,
  until: at(9),
  since: null,
  actions: ['keep', 'stop'],
  ...changes
});

test('a notice counts down, and names the owner of its buttons', () => {
  assert.equal(
    noticeText(notice(), NOW, view(), trans),
    'This server stops in 9 minutes\nFiles are kept; kernel memory is lost.'
  );
  const bare = notice({ details: [], until: null });
  assert.equal(noticeText(bare, NOW, view(), trans), 'This server stops soon');
  const shared = view({ can_control: false });
  assert.match(noticeText(notice(), NOW, shared, trans), /only its owner can keep it on/);
});

test('in the last seconds a notice says no time', () => {
  const seconds = left => noticeText(notice({ until: at(left / 60) }), NOW, view(), trans);
  assert.match(seconds(61), /^This server stops in 1 minute\n/);
  assert.match(seconds(9), /^This server stops soon\n/);
});

test('a notice words the idle time as the panel does', () => {
  const { sentence } = stopText(view(), trans);
  assert.match(sentence, /^This server has been idle since /);
  assert.equal(
    noticeText(notice({ since: at(-50) }), NOW, view(), trans),
    `This server stops in 9 minutes\nFiles are kept; kernel memory is lost. ${sentence}`
  );
});

test('a notice is read aloud once a minute, twice in the last one, and says no more than is left', () => {
  const seconds = [600, 599, 541, 540, 119, 61, 60, 31, 30, 11, 10, 1, 0, -5];
  const said = [600, 540, 540, 540, 60, 60, 60, 30, 30, 10, 10, 0, 0, 0];
  assert.deepEqual(
    seconds.map(each => announced(each * 1000) / 1000),
    said
  );
});

test('the price says what it consists of, what it was before, and what is not charged', () => {
  const price = (usd_per_hour, market) => ({ usd_per_hour, market });
  const changed = cost({
    beside_usd_per_hour: 0.02,
    beside_of: ['disk', 'address'],
    price_change: {
      why: 'move',
      at: at(-5),
      before: price(0.2, 'spot'),
      now: price(0.42, 'on-demand'),
      asked: price(0.3, 'spot')
    },
    credits: [
      { usd: 0.12, why: 'free-hour', at: at(-4) },
      { usd: 0.02, why: 'earlier-end', at: at(-2) }
    ]
  });
  const lines = costText(changed, NOW, trans).lines;
  const line = kind => lines.find(each => each.kind === kind);
  assert.equal(
    line('price').note,
    'instance $0.40/h + its disk and public address $0.020/h (a list)'
  );
  const [diskOnly] = costText({ ...changed, beside_of: ['disk'] }, NOW, trans).lines;
  assert.equal(diskOnly.note, 'instance $0.40/h + its disk $0.020/h (a list)');
  assert.equal(line('change').name, 'Before the move');
  assert.equal(line('change').value, '$0.20/h, spot');
  assert.match(line('change').note, /\$0\.30\/h, spot/);
  assert.match(line('credit').value, /\$0\.120 less today/);
  assert.match(line('credit').note, /AWS does not charge/);
  const [, second] = lines.filter(({ kind }) => kind === 'credit');
  assert.match(second.value, /\$0\.020 less today/);
  assert.match(second.note, /had ended earlier/);
  assert.ok(!costText(changed, NOW, trans, true).lines.some(({ kind }) => kind === 'change'));
});
