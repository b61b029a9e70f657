import assert from 'node:assert/strict';
import { test } from 'node:test';

import { placeCell } from '../lib/documents/pythonNotebook.js';
import { mayStart } from '../lib/model/cluster.js';
import { callOf, cellOf, firstRequest, workersOf } from '../lib/model/clusterRequest.js';
import { startPriceText, stopClusterTexts } from '../lib/text/clusterText.js';
import { trans } from './trans.js';

const status = (changes = {}) => ({
  wanted: 0,
  max_workers: 8,
  engine: null,
  profile: '',
  profile_name: '',
  workers: [],
  problem: '',
  has_given_up: false,
  last_workers: 0,
  last_profile: '',
  last_engine: null,
  ...changes
});

const choice = (profile, changes = {}) => ({
  profile,
  is_available: true,
  refusal: '',
  ...changes
});

const price = (changes = {}) => ({
  profile_name: 'A10G',
  workers: 3,
  instance_type: 'g5.xlarge',
  market: 'spot',
  usd_per_hour: 0.93,
  max_usd_per_hour: 3.02,
  ...changes
});

test('the code is a call with what differs from its defaults', () => {
  const wanted = { workers: 3, profile: 'a10g', engine: 'ray' };
  assert.equal(callOf(wanted), 'ec2spawner.cluster(3, "a10g")');
  assert.equal(callOf({ ...wanted, profile: '' }), 'ec2spawner.cluster(3)');
  assert.equal(
    cellOf({ ...wanted, engine: 'torchrun' }),
    'import ec2spawner\n\ncluster = ec2spawner.cluster(3, "a10g", engine="torchrun")'
  );
});

test('a profile cannot end the text that it is in', () => {
  const call = callOf({ workers: 1, profile: 'a"\n\\', engine: 'ray' });
  assert.equal(call, 'ec2spawner.cluster(1, "a\\"\\n\\\\")');
});

test('a number of workers is a whole one that is allowed', () => {
  const found = ['1', ' 8 ', '0', '9', '-1', '1.5', '1e1', '', 'x', '9999'].map(typed =>
    workersOf(typed, 8)
  );
  assert.deepEqual(found, [1, 8, null, null, null, null, null, null, null, null]);
});

test('a cluster can be started where one is allowed and there is none', () => {
  assert.equal(mayStart(status()), true);
  assert.equal(mayStart(status({ max_workers: 0 })), false);
  assert.equal(mayStart(status({ wanted: 2 })), false);
  assert.equal(mayStart(status({ workers: [{ state: 'ending' }] })), false);
});

test("at first the last cluster is chosen, else the server's own hardware", () => {
  const choices = [choice('t4'), choice('a10g'), choice('h100', { refusal: 'beyond your limit' })];
  assert.deepEqual(firstRequest(status(), choices), {
    workers: 2,
    profile: 't4',
    engine: 'ray'
  });
  assert.equal(firstRequest(status({ max_workers: 1 }), choices).workers, 1);
  const last = { last_workers: 12, last_profile: 'a10g', last_engine: 'torchrun' };
  assert.deepEqual(firstRequest(status(last), choices), {
    workers: 8,
    profile: 'a10g',
    engine: 'torchrun'
  });
  const stopped = { ...last, profile: 't4', engine: 'ray' };
  assert.deepEqual(firstRequest(status(stopped), choices), {
    workers: 8,
    profile: 't4',
    engine: 'ray'
  });
});

test('hardware that is refused is never chosen, what is sold out only without another', () => {
  const refused = choice('t4', { refusal: 'no' });
  const soldOut = choice('a10g', { is_available: false });
  const profile = (changes, ...choices) => firstRequest(status(changes), choices).profile;
  assert.equal(profile({ last_profile: 't4' }, refused, choice('l4')), 'l4');
  assert.equal(profile({}, soldOut, choice('l4')), 'l4');
  assert.equal(profile({}, refused, soldOut), 'a10g');
  assert.equal(profile({}, refused), '');
});

test('the price is that of all workers, with what is bought and its bound', () => {
  assert.deepEqual(startPriceText(price(), trans), {
    sum: 'About $0.93/h for 3 workers together',
    detail: '3 × g5.xlarge, spot; at most $3.02/h (estimate)'
  });
  const one = price({ workers: 1, max_usd_per_hour: 0.93 });
  assert.deepEqual(startPriceText(one, trans), {
    sum: 'About $0.93/h for 1 worker',
    detail: '1 × g5.xlarge, spot (estimate)'
  });
});

test('an unknown price is said to be unknown, and so is a kind that EC2 has not', () => {
  assert.match(startPriceText(price({ usd_per_hour: null }), trans).sum, /unknown/);
  assert.match(startPriceText(price({ instance_type: '' }), trans).sum, /EC2 offers none/);
});

test('a stop says what it loses, and what that costs an hour', () => {
  const worker = { state: 'ready', idle_since: null, interruption_at: null };
  const busy = { ...worker, instance_type: 'g5.xlarge', usd_per_hour: 0.31 };
  const idle = { ...busy, idle_since: '2026-11-20T12:00:00Z' };
  const [lost, end] = stopClusterTexts(status({ wanted: 2, workers: [busy, idle] }), trans);
  assert.match(lost, /^1 worker is busy/);
  assert.match(end, /\$0\.62\/h/);
  assert.match(stopClusterTexts(status({ workers: [idle] }), trans)[0], /^All workers/);
});

/** What is used of a shared notebook. */
function notebook(...sources) {
  const made = source => ({
    cell_type: 'code',
    source,
    getSource() {
      return this.source;
    },
    setSource(text) {
      this.source = text;
    }
  });
  return {
    cells: sources.map(made),
    insertCell(index, { source }) {
      this.cells.splice(index, 0, made(source));
    }
  };
}

const sources = ({ cells }) => cells.map(({ source }) => source);

test('the cell comes below the active one, or into it where that is empty', () => {
  const below = notebook('a', 'b');
  assert.equal(placeCell(below, 0, 'x'), 1);
  assert.deepEqual(sources(below), ['a', 'x', 'b']);
  const into = notebook('a', ' \n');
  assert.equal(placeCell(into, 1, 'x'), 1);
  assert.deepEqual(sources(into), ['a', 'x']);
  const none = notebook();
  assert.equal(placeCell(none, -1, 'x'), 0);
  assert.deepEqual(sources(none), ['x']);
  const text = notebook('');
  text.cells[0].cell_type = 'markdown';
  assert.equal(placeCell(text, 0, 'x'), 1);
});
