import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hasCluster, isChanging, rateOf, workerState } from '../lib/model/cluster.js';
import {
  endsBusyText,
  joinedText,
  priceText,
  problemText,
  rateText,
  rememberedText,
  restartCode,
  workerText
} from '../lib/text/clusterText.js';
import { trans } from './trans.js';

const plain = text => text.replace(/[\u2007\u00a0 ]+/g, ' ').trim();
const NOW = Date.UTC(2026, 10, 20, 12, 0);
const at = minutes => new Date(NOW + minutes * 60_000).toISOString();

const worker = (changes = {}) => ({
  number: 2,
  state: 'ready',
  message: 'Ready',
  instance_type: 'g5.xlarge',
  zone: 'us-east-1b',
  market: 'spot',
  idle_since: null,
  gpu_percent: 87,
  interruption_at: null,
  usd_per_hour: 0.31,
  usd: 0.042,
  ...changes
});

const unassigned = { instance_type: '', usd_per_hour: null, usd: 0 };

const status = (changes = {}) => ({
  wanted: 2,
  profile: 'a10g',
  profile_name: 'A10G, 24 GB',
  workers: [worker({ number: 1 }), worker()],
  problem: '',
  has_given_up: false,
  last_workers: 0,
  last_profile: '',
  last_engine: null,
  ...changes
});

test('each state of a worker has its words', () => {
  const states = [
    [{ state: 'waiting', ...unassigned }, 'looking for a machine'],
    [{ state: 'starting' }, 'joining'],
    [{}, 'busy'],
    [{ idle_since: at(-3) }, 'idle'],
    [{ interruption_at: at(2) }, 'being reclaimed'],
    [{ state: 'starting', interruption_at: at(2) }, 'being reclaimed'],
    [{ state: 'ending', interruption_at: at(2) }, 'ending']
  ];
  for (const [changes, words] of states) {
    assert.equal(workerText(worker(changes), NOW, trans).state, words);
  }
});

test('a worker is shown with its instance, its GPU and its cost', () => {
  const text = workerText(worker(), NOW, trans);
  assert.equal(text.name, 'Worker 2');
  assert.equal(plain(text.gpu), 'GPU 87 %');
  assert.equal(text.hardware, 'g5.xlarge · spot');
  assert.equal(text.cost, '$0.042 · $0.31/h');
  const waiting = workerText(
    worker({ state: 'waiting', gpu_percent: null, ...unassigned }),
    NOW,
    trans
  );
  assert.deepEqual([waiting.gpu, waiting.hardware, waiting.cost], ['', '', '']);
  const unpriced = workerText(worker({ usd: null, usd_per_hour: null }), NOW, trans);
  assert.equal(unpriced.cost, 'price unknown');
  const joining = worker({ state: 'starting', message: 'Starting Ray' });
  assert.equal(workerText(joining, NOW, trans).note, 'Starting Ray');
});

test('all numbers of percent have the same width', () => {
  const widths = [0, 7, 100].map(
    gpu_percent => workerText(worker({ gpu_percent }), NOW, trans).gpu.length
  );
  assert.equal(new Set(widths).size, 1);
});

test('the workers that have joined are counted, and their prices added', () => {
  assert.equal(joinedText(status(), trans), '2 of 2 joined');
  assert.equal(rateText(status(), trans), '$0.62/h');
  const coming = worker({ number: 3, state: 'waiting', ...unassigned });
  const partly = status({ wanted: 3, workers: [...status().workers, coming] });
  assert.equal(joinedText(partly, trans), '2 of 3 joined');
  assert.equal(rateText(partly, trans), '$0.62/h', 'what has no instance costs nothing');
  assert.equal(joinedText(status({ wanted: 1, workers: [] }), trans), '0 of 1 joined');
});

test('an unknown price makes the sum a lower bound, and is never zero', () => {
  const unpriced = worker({ usd_per_hour: null });
  assert.equal(rateText(status({ workers: [worker(), unpriced] }), trans), 'at least $0.31/h');
  assert.equal(rateText(status({ workers: [unpriced] }), trans), '');
  assert.equal(rateOf([worker({ state: 'ending' })]), null);
});

test('the pace follows what changes', () => {
  assert.equal(isChanging(status()), false);
  assert.equal(isChanging(status({ wanted: 3 })), true);
  assert.equal(isChanging(status({ wanted: 3, has_given_up: true })), false);
  assert.equal(
    isChanging(status({ wanted: 1, workers: [worker(), worker({ state: 'ending' })] })),
    true
  );
  assert.equal(
    isChanging(status({ workers: [worker(), worker({ interruption_at: at(1) })] })),
    true
  );
  assert.equal(isChanging(status({ wanted: 0, workers: [] })), false);
  assert.equal(workerState(worker({ idle_since: at(-1) })), 'idle');
});

test('the section is there for a cluster, its end, and one to start again', () => {
  const none = status({ wanted: 0, workers: [] });
  assert.equal(hasCluster(none), false);
  assert.equal(hasCluster(status({ ...none, last_workers: 4 })), true);
  assert.equal(hasCluster(status({ ...none, problem: 'Nothing had run' })), true);
  assert.equal(hasCluster(status({ workers: [] })), true);
  const ending = status({ wanted: 0, workers: [worker({ state: 'ending' })] });
  assert.equal(hasCluster(ending), true);
  assert.equal(joinedText(ending, trans), 'The cluster is being stopped.');
});

test('a problem is a sentence, and says when the hub has given up', () => {
  const of = changes => problemText(status(changes), trans);
  assert.equal(of({}), '');
  assert.equal(of({ problem: 'EC2 has none' }), 'EC2 has none.');
  assert.match(of({ problem: 'No Python.', has_given_up: true }), /^No Python\. No more workers/);
  assert.match(of({ wanted: 0, workers: [], problem: 'idle for 1 hour' }), /was stopped: idle for/);
});

test('the cluster before the last stop can be started again', () => {
  const before = { last_workers: 4, last_profile: 'a10g', last_profile_name: 'A10G, 24 GB' };
  const none = { wanted: 0, workers: [], ...before };
  const last = status({ ...none, last_engine: 'ray' });
  assert.match(rememberedText(last, trans), /^This server had 4 workers \(A10G, 24 GB\) before/);
  assert.equal(restartCode(last), 'ec2spawner.cluster(4, "a10g")');
  const other = status({ ...none, last_engine: 'torchrun' });
  assert.equal(restartCode(other), 'ec2spawner.cluster(4, "a10g", engine="torchrun")');
  assert.equal(rememberedText(status(before), trans), '');
});

test('a price is worded with its bound', () => {
  const price = changes => ({
    profile_name: 'A10G',
    workers: 6,
    instance_type: 'g5.xlarge',
    market: 'spot',
    usd_per_hour: 1.86,
    max_usd_per_hour: 6.04,
    ...changes
  });
  assert.equal(priceText(price(), trans), '6 workers: about $1.86/h, at most $6.04/h (estimate).');
  const same = price({ max_usd_per_hour: 1.86 });
  assert.equal(priceText(same, trans), '6 workers: about $1.86/h (estimate).');
  assert.equal(priceText(price({ usd_per_hour: null }), trans), '6 workers: price unknown.');
  assert.match(
    priceText(price({ instance_type: '', workers: 1 }), trans),
    /^1 worker: EC2 offers none/
  );
});

test('a smaller cluster says what busy workers it ends', () => {
  assert.match(endsBusyText(status(), 1, trans), /^At least 1 busy worker ends/);
  assert.equal(endsBusyText(status(), 2, trans), '');
  const idle = status({ workers: [worker(), worker({ idle_since: at(-9) })] });
  assert.equal(endsBusyText(idle, 1, trans), '');
});
