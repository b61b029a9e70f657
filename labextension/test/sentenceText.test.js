import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { noticeText } from '../lib/text/noticeText.js';
import { sentenceText } from '../lib/text/sentenceText.js';
import { stopReason } from '../lib/text/terminationText.js';
import { trans } from './trans.js';

const VALUES = { string: ['', 'train.ipynb'], number: [1, 7200], boolean: [true, false] };

/** Every code of the wire with each of its parameters, as `api/wire/sentence.ts` declares them. */
const wire = readFileSync(new URL('../src/api/wire/sentence.ts', import.meta.url), 'utf8');
const [, table] = /interface ISentenceParameters \{(.*?)\n\}/s.exec(wire);
const declared = [...table.matchAll(/^ {2}'?([\w-]+)'?: (.*);$/gm)].map(([, code, type]) => ({
  code,
  parameters: [...type.matchAll(/(\w+): (\w+)/g)].map(([, name, type]) => [name, type])
}));

const NOW = Date.UTC(2026, 10, 20, 12, 0);
const text = (code, params = {}) => sentenceText({ code, params }, trans);

test('every code is worded, with each of its parameters', () => {
  assert.ok(declared.length > 40);
  for (const { code, parameters } of declared) {
    for (const index of [0, 1]) {
      const values = parameters.map(([name, type]) => [name, VALUES[type][index]]);
      const worded = text(code, Object.fromEntries(values));
      assert.notEqual(worded, code);
      assert.ok(!/undefined|NaN|%\d/.test(worded), worded);
    }
  }
});

test('a code of a later version is shown unchanged', () => {
  assert.equal(text('code-of-later'), 'code-of-later');
});

test('a name is optional where the server may not know it', () => {
  assert.equal(text('kernel-running', { name: 'a.ipynb' }), 'a.ipynb is running');
  assert.equal(text('kernel-running', { name: '' }), 'A kernel is running');
  assert.equal(text('gpu-in-use', { name: '' }), 'The GPU is in use');
});

test('a full home has its largest folders', () => {
  const takes = text('folder-bytes', { folder: '~/data', bytes: 61_000_000_000 });
  assert.equal(takes.replace(/\u00a0/g, ' '), '~/data takes at least 61 GB.');
  assert.equal(text('folder-files', { folder: '~', files: 12 }), '~ has at least 12 files.');
});

test('the reply to a refused choice has the bounds and the current value', () => {
  const bounds = { min_seconds: 900, max_seconds: 28800, seconds: 3600 };
  const several = text('idle-time-bounded', bounds);
  assert.match(several, /15 minutes to 8 hours.*1 hour/);
  assert.match(text('idle-time-bounded', { ...bounds, min_seconds: 28800 }), /8 hours only/);
});

test('a stop names its requester, or the failure that the hub reported', () => {
  const reason = (changes, isOwner = true) =>
    stopReason({ reason: 'user', message: '', by: '', ...changes }, isOwner, trans);
  assert.match(reason({}), /^You/);
  assert.match(reason({}, false), /^Its owner/);
  assert.match(reason({ reason: 'admin', by: 'alice' }), /alice/);
  assert.match(reason({ reason: 'hub', by: 'culler' }), /culler/);
  assert.equal(reason({ reason: 'hub', message: 'It is unknown' }), 'It is unknown.');
  assert.equal(reason({ reason: 'failed', message: 'x'.repeat(9) }), `${'x'.repeat(9)}.`);
  assert.equal(reason({ reason: 'reason-of-later', message: 'Why.' }), 'Why.');
});

// --- toasts -----------------------------------------------------------------------------------

const MAX_TOAST = 140;
const sentence = (code, params = {}) => ({ code, params });
const FILES = ['files-kept', 'session-kept', 'cell-may-lose-variables', 'files-lost'].map(code => [
  sentence(code)
]);
const PROGRAM_XIDS = [13, 31, 43, 45, 63, 68, 94, 109];
const MACHINE_XIDS = [48, 61, 62, 64, 74, 79, 95, 119, 120, 999];
const NOTICES = [
  ...FILES.map(files => [sentence('stops'), files]),
  ...FILES.map(files => [sentence('stops'), [sentence('max-age', { seconds: 86400 }), ...files]]),
  ...FILES.map(files => [sentence('spot-reclaim'), [sentence('save-now'), ...files]]),
  [sentence('spot-reclaim'), [sentence('session-continues-soon')]],
  [sentence('spot-reclaim'), [sentence('server-continues-soon')]],
  ...['session-moves-soon', 'server-moves-soon', 'session-kept', 'save-now'].map(code => [
    sentence('spot-reclaim'),
    [sentence('cell-interrupted-soon', { name: 'x'.repeat(18) }), sentence(code)]
  ]),
  ...[sentence('session-values-older'), sentence('session-lost', { count: 1000 })].map(detail => [
    sentence('session-cell-interrupted', { name: 'x'.repeat(18) }),
    [detail]
  ]),
  [
    sentence('session-moving'),
    [sentence('session-continues')],
    { reason: 'interruption', message: '' }
  ],
  [
    sentence('server-moving'),
    [sentence('server-continues')],
    { reason: 'interruption', message: '' }
  ],
  [
    sentence('session-back', { count: 1000, kernels: 3 }),
    [sentence('session-older', { at: 0 }), sentence('session-lost', { count: 100 })]
  ],
  [sentence('stopping-by-admin'), [sentence('documents-saved')]],
  [sentence('gpu-lost', { index: 15 }), [sentence('replace-server')]],
  [
    sentence('gpu-memory-errors', { index: 15 }),
    [sentence('results-wrong'), sentence('replace-server')]
  ],
  ...PROGRAM_XIDS.map(number => [
    sentence('gpu-xid', { index: 15 }),
    [sentence('xid', { number })]
  ]),
  ...MACHINE_XIDS.map(number => [
    sentence('gpu-xid', { index: 15 }),
    [sentence('xid', { number }), sentence('contact-admin-if-it-persists')]
  ]),
  [
    sentence('gpus-unreadable'),
    [sentence('gpu-driver-updated'), sentence('contact-admin-if-it-persists')]
  ],
  [sentence('disk-full'), [sentence('home-full', { gib: 1000 })]],
  [sentence('disk-full'), [sentence('system-disk-full', { gib: 1000 })]],
  [sentence('admin-message'), [sentence('message-text', { text: 'x'.repeat(115) })]],
  [
    sentence('limit-used-up', { scope: 'project', name: 'protein-folding' }),
    [
      sentence('limit-amount', {
        kind: 'usd_per_month',
        used: 1000.01,
        limit: 1000,
        at_least: false
      })
    ]
  ],
  [
    sentence('limit-exceeded', { scope: 'project', name: 'protein-folding' }),
    [
      sentence('limit-runs', { kind: 'usd_per_hour', used: 1000.01, limit: 1000 }),
      sentence('limit-no-start')
    ]
  ],
  [
    sentence('limit-share', { percent: 75, scope: 'group', name: 'research' }),
    [sentence('limit-amount', { kind: 'usd_per_month', used: 750.01, limit: 1000, at_least: true })]
  ],
  [sentence('gpu-unused', { count: 8 }), [sentence('profile-without-gpu', { files_kept: false })]]
];

test('JupyterLab cuts no notice short', () => {
  for (const [title, details, stop = null] of NOTICES) {
    const until = new Date(NOW + 59 * 60_000).toISOString();
    const notice = { title, details, until, since: null, stop, actions: [] };
    const shown = noticeText(notice, NOW, { status: null }, trans);
    assert.ok(shown.length <= MAX_TOAST, `${shown.length}: ${shown}`);
  }
});

test('no notice is cut short where workers end with the server', () => {
  const since = new Date(NOW - 50 * 60_000).toISOString();
  const until = new Date(NOW + 59 * 60_000).toISOString();
  const workers = sentence('workers-end', { count: 64 });
  const limit = sentence('limit-stops', { scope: 'project', name: 'protein-folding' });
  const admin = { reason: 'admin', by: 'alice', message: '' };
  const service = { reason: 'hub', by: 'idle-culler', message: '' };
  const soon = FILES.flatMap(([files]) => [
    { kind: 'idle', title: sentence('stops'), details: [files], until, since },
    {
      kind: 'idle',
      title: sentence('stops'),
      details: [sentence('max-age', { seconds: 86400 }), files],
      until
    },
    { kind: 'budget', title: sentence('stops'), details: [limit, files], until }
  ]);
  const now = ['documents-saved', 'session-kept', 'files-not-kept'].flatMap(code => {
    const [kind, details] = ['stopping', [sentence(code)]];
    const title = code === 'session-kept' ? 'session-saving' : 'stopping';
    const byAdmin = code === 'session-kept' ? 'session-saving' : 'stopping-by-admin';
    return [
      { kind, title: sentence(title), details, since },
      { kind, title: sentence(title), details, stop: service },
      { kind, title: sentence(byAdmin), details, stop: admin }
    ];
  });
  for (const each of [...soon, ...now]) {
    const details = [...each.details, workers];
    const notice = { until: null, since: null, stop: null, actions: [], ...each, details };
    const said = noticeText(notice, NOW, { status: null }, trans);
    assert.ok(said.length <= MAX_TOAST, `${said.length}: ${said}`);
  }
});

test('a price that is not the one before fits a toast, with both prices and markets', () => {
  const moved = { now: 109.21, market: 'on-demand', before: 43.53, before_market: 'spot' };
  for (const code of ['price-moved', 'price-started', 'price-rose']) {
    const title = { code, params: moved };
    const details = [
      code === 'price-rose'
        ? { code: 'price-on-demand', params: { usd_per_hour: 109.21 } }
        : { code: 'price-times', params: { times: 2.5 } },
      { code: 'pay-less', params: {} }
    ];
    const notice = { kind: 'price', title, details, actions: [], stop: null, since: null };
    const said = noticeText({ ...notice, until: null }, NOW, { status: null }, trans);
    assert.match(said, /\$109\.21\/h/);
    assert.match(said, /\$43\.53\/h/);
    assert.match(said, /continue elsewhere or stop/);
    assert.ok(said.length <= 140, `${said.length}: ${said}`);
  }
  assert.match(text('price-moved', moved), /\$109\.21\/h, on-demand, not \$43\.53\/h, spot/);
});
