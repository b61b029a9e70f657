import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { MissedOutputs, showMissed, WakeWatch } from '../lib/documents/missedOutputs.js';

/** A code cell that merges a stream into the one before it while both are there, as JupyterLab. */
class Cell {
  constructor(id, cell_type = 'code') {
    this.id = id;
    this.cell_type = cell_type;
    this.outputs = [];
    this.changes = 0;
    this.execution_count = null;
    this.executionState = 'idle';
  }
  getId() {
    return this.id;
  }
  getOutputs() {
    return this.outputs;
  }
  setOutputs(outputs) {
    assert.equal(this.outputs.length, 0);
    this.outputs = outputs;
    this.changes++;
  }
  clearOutputs() {
    this.outputs = [];
  }
}

const printed = text => ({ output_type: 'stream', name: 'stdout', text });
const execution = (cell_id, text, is_running = true) => ({
  id: `run of ${cell_id}`,
  cell_id,
  execution_count: 7,
  is_running,
  outputs: [printed(text)]
});

test('outputs are shown in the cell that was run, as long as it runs', () => {
  const [other, cell] = [new Cell('a'), new Cell('b')];
  showMissed([other, cell], [execution('b', 'one')]);
  assert.deepEqual(cell.outputs, [printed('one')]);
  assert.equal(cell.executionState, 'running');
  showMissed([other, cell], [execution('b', 'one two', false)]);
  assert.deepEqual(cell.outputs, [printed('one two')]);
  assert.equal(cell.executionState, 'idle');
  assert.equal(cell.execution_count, 7);
  assert.deepEqual(other.outputs, []);
});

test('outputs that have not changed are left alone', () => {
  const cell = new Cell('a');
  showMissed([cell], [execution('a', 'one')]);
  showMissed([cell], [execution('a', 'one')]);
  assert.equal(cell.changes, 1);
});

test('a cell that is gone or is no code any more is left alone', () => {
  const cell = new Cell('a', 'markdown');
  showMissed([cell], [execution('a', 'one'), execution('b', 'two')]);
  assert.deepEqual(cell.outputs, []);
});

test('outputs are asked for again once a session has woken', () => {
  const watch = new WakeWatch();
  const saw = (id, state, phase = 'live') =>
    watch.hasWoken({ phase, status: { wake: id && { id, state } } });
  assert.equal(saw(null), false);
  assert.equal(saw('s', 'waking'), false);
  assert.equal(saw('s', 'done'), true);
  assert.equal(saw('s', 'done'), false);
  assert.equal(saw('s', 'done', 'away'), false);
  assert.equal(saw('s', 'done'), true, 'on the next machine, as it was saved last');
});

test('once the extension is not active, no open notebook is followed', async context => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let asked = 0;
  const fetch = async () => {
    asked++;
    return Response.json({ executions: [execution('a', 'one')] });
  };
  const settings = ServerConnection.makeSettings({ baseUrl: 'http://server/', fetch });
  globalThis.document = { cookie: '', createElement: () => new URL('http://server/') };
  context.after(() => delete globalThis.document);
  const model = { view: { phase: 'live', status: null } };
  model.changed = new Signal(model);
  const notebook = {
    localPath: 'a.ipynb',
    ready: Promise.resolve(),
    model: { sharedModel: { cells: [new Cell('a')] } }
  };
  const widget = { disposed: new Signal(model) };
  const missed = new MissedOutputs(settings, model);
  const passes = async () => {
    for (let turns = 0; turns < 20; turns++) {
      await new Promise(resolve => setImmediate(resolve));
    }
    context.mock.timers.tick(3_000);
  };
  missed.createNew(widget, notebook);
  await passes();
  await passes();
  assert.ok(asked > 1, 'while the cell runs');
  missed.dispose();
  const before = asked;
  await passes();
  model.view.status = { wake: { id: 's', state: 'done' } };
  model.changed.emit();
  await passes();
  assert.equal(asked, before);
});
