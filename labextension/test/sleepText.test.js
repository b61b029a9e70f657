import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bytes } from '../lib/text/format.js';
import { noticeTitle } from '../lib/text/noticeText.js';
import { announcement, filesSentence, sentences } from '../lib/text/serverText.js';
import { continues, savingText, sleeps, wakeText } from '../lib/text/sleepText.js';
import { parts } from '../lib/text/statusItemText.js';
import { policySentences, stopText } from '../lib/text/stopText.js';
import { DEFAULT_SETTINGS } from '../lib/settings.js';
import { canSleep, stateOf } from '../lib/model/state.js';
import { trans } from './trans.js';

const NOW = Date.UTC(2026, 10, 20, 12, 0);
const at = minutes => new Date(NOW + minutes * 60_000).toISOString();
const plain = text => text.replace(/[\u2007\u00a0 ]+/g, ' ').trim();

const kernel = (changes = {}) => ({
  path: 'train.ipynb',
  kernel_name: 'python3',
  state: 'done',
  variables: 12,
  later: 0,
  expected: 12,
  size_bytes: 0,
  expected_bytes: 0,
  lost: [],
  lost_count: 0,
  differing: [],
  unkept: [],
  code: '',
  values_of: null,
  interrupted_cell: null,
  ...changes
});

test('a cell that was interrupted is to be run again', () => {
  const problem = changes => wakeText(wake([kernel(changes)]), trans).kernels[0].problem;
  const again = 'The cell that was running was interrupted: run it again.';
  assert.equal(problem({ interrupted_cell: 'c' }), again);
  assert.equal(problem({ interrupted_cell: '' }), 'What was running was interrupted.', 'no cell');
  assert.match(problem({ interrupted_cell: 'c', code: 'busy' }), /not saved\. The cell that was/);
  assert.equal(problem({}), '');
  assert.equal(problem({ interrupted_cell: undefined }), '', 'of an older server');
});

test('a value that is older than the session says of when it is', () => {
  const lost = [{ name: 'model', type: '', code: 'deadline', detail: '', kept_of: at(-120) }];
  const old = kernel({ code: 'busy', values_of: at(-120) });
  const [first, second] = wakeText(wake([kernel({ lost, lost_count: 1 }), old]), trans).kernels;
  assert.match(
    first.lost[0],
    /^model: the time was over\. Its value of .*2026.* is kept: %wake model$/
  );
  assert.match(second.problem, /^A cell was running\. Its variables are those of .*2026/);
});

const wake = (kernels, changes = {}) => ({
  id: 's',
  slept_at: at(-60),
  trigger: 'idle',
  state: 'waking',
  kernels,
  kernel_count: kernels.length,
  ...changes
});

function view(changes = {}, phase = 'live') {
  const status = {
    now: at(0),
    managed: true,
    can_control: true,
    agent_connected: true,
    hub_reachable: true,
    cost: null,
    idle_policy: { server_seconds: 3600, then: 'sleep', working_hours: null },
    idleness: { idle_since: at(-51), stop_at: at(9), warn_at: at(4), busy: null },
    telemetry: null,
    stop: null,
    full_disks: [],
    notices: [],
    keep: [],
    files_kept: true,
    can_sleep: true,
    saving: null,
    wake: null,
    ...changes
  };
  return { phase, status, now: NOW, problem: '', end: null };
}

const STOPS = { idle_policy: { server_seconds: 3600, then: 'stop', working_hours: null } };
const said = given =>
  parts({ view: given, form: 'wide', settings: DEFAULT_SETTINGS, trans }).map(plain).join(' ');

test('a session that wakes counts the variables of the notebook at work', () => {
  const text = wakeText(
    wake([
      kernel({ path: 'a.ipynb', expected: 4, variables: 4 }),
      kernel({ state: 'restoring', variables: 8, later: 1 }),
      kernel({ path: '', state: 'waiting', variables: 0 })
    ]),
    trans
  );
  assert.equal(text.headline, 'Waking train.ipynb: 9 of 12 variables');
  assert.equal(text.percent.toFixed(0), '46');
  assert.deepEqual(
    text.kernels.map(({ name, done }) => [name, done]),
    [
      ['a.ipynb', '4 variables'],
      ['train.ipynb', '9 of 12 variables'],
      ['Console (python3)', 'waiting']
    ]
  );
});

test('a session that wakes counts the bytes of the notebook at work', () => {
  const done = (size_bytes, expected_bytes, state = 'restoring') => {
    const text = wakeText(
      wake([kernel({ state, variables: 9, size_bytes, expected_bytes })]),
      trans
    );
    return plain(text.kernels[0].done);
  };
  assert.equal(done(1.8e9, 3.1e9), '9 of 12 variables, 1.8 of 3.1 GB');
  assert.equal(done(40e6, 3.1e9), '9 of 12 variables, 40 MB of 3.1 GB');
  assert.equal(done(3.14e9, 24e9), '9 of 12 variables, 3.1 of 24 GB');
  assert.equal(done(0, 3.1e9), '9 of 12 variables');
  assert.equal(done(undefined, undefined), '9 of 12 variables', 'of an older server');
  assert.equal(done(900, 3000), '9 of 12 variables, 900 B of 3 KB');
  assert.equal(done(1.8e9, 3.1e9, 'done'), '9 of 12 variables');
  const waking = kernel({
    state: 'restoring',
    variables: 9,
    size_bytes: 1.8e9,
    expected_bytes: 3.1e9
  });
  assert.equal(
    plain(wakeText(wake([waking]), trans).headline),
    'Waking train.ipynb: 9 of 12 variables, 1.8 of 3.1 GB'
  );
});

test('the list of a session that is back is honest', () => {
  const lost = { name: 'loader', type: 'DataLoader', code: 'of-a-later-version', detail: '' };
  const text = wakeText(
    wake(
      [
        kernel({ variables: 9, later: 2, lost: [lost], lost_count: 4 }),
        kernel({ path: 'b.ipynb', state: 'failed', variables: 0, code: 'notebook-gone' })
      ],
      { state: 'done', kernel_count: 3 }
    ),
    trans
  );
  assert.equal(
    text.headline,
    'Your session is back: 11 variables. 4 did not come back. 1 notebook did not wake.'
  );
  assert.equal(text.percent, null);
  assert.equal(text.kernels[0].done, '11 of 12 variables, 2 of them when first used');
  assert.deepEqual(text.kernels[0].lost, ['loader: it could not be saved']);
  const unsavable = (code, detail) => {
    const one = { name: 'rows', type: 'generator', code, detail };
    return wakeText(wake([kernel({ lost: [one] })]), trans).kernels[0].lost;
  };
  assert.deepEqual(unsavable('not-storable', 'a generator'), ['rows: a generator cannot be saved']);
  const error = "TypeError: cannot pickle '_thread.lock' object";
  assert.deepEqual(unsavable('not-storable', error), ['rows: it cannot be saved']);
  assert.deepEqual(unsavable('deadline', 'a generator'), ['rows: the time was over']);
  const differing = [{ name: 'view', type: '', code: 'no-longer-shared', detail: '' }];
  assert.deepEqual(wakeText(wake([kernel({ differing })]), trans).kernels[0].lost, [
    'view: has a copy of what it shared with other variables'
  ]);
  assert.equal(text.kernels[0].more, 'and 3 more');
  assert.equal(text.kernels[1].problem, 'The notebook is no longer there.');
  assert.equal(text.more, 'and 1 more notebook');
});

test('a session without variables shows no bar', () => {
  const text = wakeText(wake([kernel({ expected: 0, variables: 0, state: 'starting' })]), trans);
  assert.equal(text.percent, null);
  assert.equal(text.headline, 'Starting the kernel of train.ipynb');
  assert.equal(wakeText(wake([]), trans).headline, 'Waking your session');
});

test('a server that sleeps is not said to stop', () => {
  assert.match(said(view()), /sleeps in 9 min/);
  assert.match(said(view(STOPS)), /stops in 9 min/);
  assert.match(sentences(view(), trans).join(' '), /It sleeps in 9 minutes unless it is used/);
  assert.match(stopText(view(), trans).kept, /^Files and variables are kept/);
  assert.match(
    policySentences(view().status.idle_policy, trans)[0],
    /^It sleeps after 1 hour idle/
  );
  assert.match(policySentences(STOPS.idle_policy, trans)[0], /^It stops after 1 hour idle/);
});

test('nothing sleeps where the home ends with the machine', () => {
  assert.equal(sleeps(view({ files_kept: false }).status), false);
  assert.equal(canSleep(view({ can_sleep: false }).status), false);
  assert.equal(canSleep(view({ can_control: false }).status), false);
  assert.equal(canSleep(view(STOPS).status), true);
  assert.equal(canSleep(view().status), true);
});

test('a session that is saved says how far it is', () => {
  const saving = { id: 's', kernels: 2, kernels_done: 1, variables: 9, size_bytes: 1.8e9 };
  assert.equal(
    plain(savingText(saving, trans)),
    'Saving your variables: 9 so far, 1.8 GB. 1 of 2 notebooks are done.'
  );
  const stop = { reason: 'idle', message: '', by: '', then: 'terminate', sleep: 'idle' };
  const saved = view({ stop, saving });
  assert.match(said(saved), /saving your session/);
  assert.match(plain(stopText(saved, trans).sentence), /Saving your variables: 9 so far, 1\.8 GB/);
  assert.equal(savingText(null, trans), '');
});

test('a server that continues elsewhere says so', () => {
  const stop = { reason: 'interruption', message: '', by: '', then: 'terminate' };
  const moving = view({ stop: { ...stop, sleep: 'interruption' } });
  assert.match(filesSentence(moving.status, trans), /continues on another machine/);
  assert.equal(continues({ ...stop, sleep: 'idle' }), false);
  assert.equal(continues(null), false);
  const lost = view({ stop: { ...stop, sleep: null } });
  assert.match(filesSentence(lost.status, trans), /kernel memory is lost/);
});

test('a reclaimed server that continues does not ask to save', () => {
  const soon = new Date(NOW + 100_000).toISOString();
  const continuing = view({ interruption_at: soon, continues: true });
  assert.match(stopText(continuing, trans).headline, /^in 1 min 40 s/);
  assert.equal(stopText(continuing, trans).sentence, 'AWS is reclaiming this instance.');
  assert.match(stopText(continuing, trans).kept, /continues on another machine/);
  const ending = view({ interruption_at: soon, continues: false });
  assert.match(stopText(ending, trans).sentence, /Save your work now/);
});

test('what could not be saved in time is not said to be kept or lost', () => {
  const stop = { reason: 'interruption', message: '', by: '', then: 'terminate', sleep: null };
  assert.match(stopText(view({ stop, continues: true }), trans).kept, /as last saved/);
});

test('waking is announced once, and graver things come before it', () => {
  const waking = view({ wake: wake([kernel({ state: 'restoring' })]) });
  assert.equal(announcement(waking, trans), 'Your session is waking.');
  assert.match(said(waking), /waking/);
  const full = { ...waking.status, full_disks: [{ code: 'home-full', params: { gib: 1 } }] };
  assert.equal(stateOf(view(full)).kind, 'disk-full');
});

test('the title of a notice counts down to the sleep', () => {
  const notice = { title: { code: 'sleeps', params: {} } };
  assert.equal(noticeTitle(notice, '5 minutes', trans), 'This session sleeps in 5 minutes');
  assert.equal(noticeTitle(notice, '', trans), 'This session sleeps soon');
});

test('sizes are decimal', () => {
  const sizes = [0, 999, 40e6, 999_960_000, 3.14e9, 24e9].map(size => plain(bytes(size)));
  assert.deepEqual(sizes, ['0 B', '999 B', '40 MB', '1.0 GB', '3.1 GB', '24 GB']);
});
