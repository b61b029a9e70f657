import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parametersOf } from '../lib/model/runParameters.js';
import { bodyOf, hoursOfCap, problemOf, selected } from '../lib/model/runRequest.js';
import {
  resultPath,
  runHardwareText,
  runPriceText,
  runProblemText,
  submittedText
} from '../lib/text/runText.js';
import { trans } from './trans.js';

const cell = (source, tags = ['parameters']) => ({
  cell_type: 'code',
  source,
  metadata: { tags }
});
const pairs = source => parametersOf([cell(source)]).map(({ name, value }) => [name, value]);

const row = (name, value, initial = null) => ({ name, value, initial });
const form = (changes = {}) => ({
  profile: 'a10g',
  parameters: [],
  maxUsd: '',
  deadlineHours: '',
  notify: false,
  ...changes
});

const choice = (changes = {}) => ({
  profile: 'a10g',
  name: 'A10G, 24 GB',
  usd_per_hour: 0.5,
  market: 'spot',
  is_available: true,
  refusal: '',
  memory_bytes: 1,
  gpu_memory_bytes: 1,
  ...changes
});

test('only the first cell with the tag has parameters', () => {
  const cells = [
    { cell_type: 'markdown', source: 'a = 1', metadata: { tags: ['parameters'] } },
    cell('b = 1', []),
    { cell_type: 'code', source: 'b = 1' },
    cell('c = 1', ['x', 'parameters']),
    cell('d = 1')
  ];
  assert.deepEqual(
    parametersOf(cells).map(({ name }) => name),
    ['c']
  );
  assert.deepEqual(parametersOf([]), []);
  assert.deepEqual(parametersOf([cell(['a = 1\n', 'b = 2'])]).length, 2);
});

test('values are those of assignments in one line, without their comments', () => {
  assert.deepEqual(pairs("lr: float = 0.1  # of Adam\nname=\"a # b\"\r\npath = 'it\\'s'"), [
    ['lr', '0.1'],
    ['name', '"a # b"'],
    ['path', "'it\\'s'"]
  ]);
  assert.deepEqual(pairs('a = [1, (2, {3: "]"})]\na = 4\nb = 2 * 5'), [
    ['a', '4'],
    ['b', '2 * 5']
  ]);
  const [{ comment }] = parametersOf([cell('lr = 0.1 ## of Adam ')]);
  assert.equal(comment, 'of Adam');
});

test('what is no such assignment is left out', () => {
  for (const source of [
    'a == 1',
    'a += 1',
    '  a = 1',
    'a, b = 1, 2',
    'a.b = 1',
    'a = [1,',
    'a = """x"""',
    "a = 'x",
    'a = 1 + \\',
    'a = # nothing',
    '# a = 1',
    'import a'
  ]) {
    assert.deepEqual(pairs(source), [], source);
  }
});

test('what was changed or added is sent, and nothing else', () => {
  const parameters = [
    row('lr', '0.2', '0.1'),
    row('seed', '1 ', '1'),
    row(' name ', 'a b'),
    row('', '')
  ];
  assert.equal(problemOf(form({ parameters })), null);
  assert.deepEqual(bodyOf('a.ipynb', form({ parameters, maxUsd: ' 5 ', deadlineHours: '1.5' })), {
    path: 'a.ipynb',
    profile: 'a10g',
    parameters: { lr: '0.2', name: 'a b' },
    max_usd: 5,
    deadline_seconds: 5400,
    notify: false
  });
  const { max_usd: cap, deadline_seconds: seconds } = bodyOf('a.ipynb', form());
  assert.deepEqual([cap, seconds], [null, null]);
  assert.equal(bodyOf('a.ipynb', form({ notify: true })).notify, true);
});

test('the first that is available is selected', () => {
  const choices = [
    choice({ profile: 'refused', refusal: 'no' }),
    choice({ profile: 'sold-out', is_available: false }),
    choice({ profile: 't4' })
  ];
  const chosen = among => selected(among)?.profile ?? null;
  assert.equal(chosen(choices), 't4');
  assert.equal(chosen(choices.slice(0, 2)), 'sold-out');
  assert.equal(chosen(choices.slice(0, 1)), null);
});

test('a problem names its field', () => {
  const problem = changes => problemOf(form(changes));
  assert.deepEqual(problem({ profile: null }), { field: 'profile' });
  for (const typed of ['0', '-1', '0,5', 'x', '1e999']) {
    assert.deepEqual(problem({ maxUsd: typed }), { field: 'maxUsd' });
    assert.deepEqual(problem({ deadlineHours: typed }), { field: 'deadlineHours' });
  }
  const named = (...parameters) => problem({ parameters });
  assert.deepEqual(named(row('a b', '1')), { field: 'parameter', name: 'a b', why: 'name' });
  assert.deepEqual(named(row('', '1')), { field: 'parameter', name: '', why: 'name' });
  assert.deepEqual(named(row('lr', '1', '1'), row('lr ', '2')), {
    field: 'parameter',
    name: 'lr',
    why: 'twice'
  });
  assert.equal(named(row('größe', '1')), null);
});

test('each problem is said with its field', () => {
  const said = problem => runProblemText(problem, trans);
  assert.match(said({ field: 'profile' }), /hardware/);
  assert.match(said({ field: 'maxUsd' }), /^Cost cap/);
  assert.match(said({ field: 'deadlineHours' }), /^Deadline/);
  for (const why of ['name', 'twice']) {
    assert.match(said({ field: 'parameter', name: 'a b', why }), /^Parameter a b/);
  }
  assert.match(said({ field: 'parameter', name: '', why: 'name' }), /^Parameters/);
});

test('the price is that per hour, with what the cap lasts for', () => {
  assert.equal(runPriceText(null, '5', trans), '');
  assert.match(runPriceText(choice({ usd_per_hour: null }), '5', trans), /unknown/);
  assert.match(runPriceText(choice(), '', trans), /\$0\.50\/h.*estimate/);
  assert.match(runPriceText(choice(), '5', trans), /10 hours/);
  assert.equal(hoursOfCap('5', 0), null);
  assert.equal(hoursOfCap('x', 1), null);
});

test("the server's own hardware is marked, and what it has in use does not matter", () => {
  assert.match(runHardwareText(choice(), true, trans).name, /this server/);
  assert.equal(runHardwareText(choice(), false, trans).name, 'A10G, 24 GB');
  assert.deepEqual(runHardwareText(choice(), true, trans).notes, []);
});

test('what was submitted is said with its number and its result', () => {
  const run = { number: 12, path: 'work/train.v2.ipynb' };
  assert.equal(resultPath(run), 'runs/train.v2-12.ipynb');
  assert.equal(resultPath({ number: 3, path: 'train.py' }), 'runs/train-3.log');
  const said = submittedText(run, trans);
  for (const part of ['12', 'train.v2.ipynb', 'runs/train.v2-12.ipynb']) {
    assert.ok(said.includes(part), part);
  }
});
