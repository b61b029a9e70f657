import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import { reconnectKernels } from '../lib/documents/kernelReconnection.js';

class Model {
  constructor() {
    this.changed = new Signal(this);
    this.shows('live');
  }
  /** Whether the server answers, and which session it has woken. */
  shows(phase, wake = null, kernels = []) {
    this.view = { phase, status: { wake: wake && { id: wake, kernels } } };
    this.changed.emit();
  }
}

/** A kernel whose connection the test opens. */
class Kernel {
  constructor(connectionStatus = 'disconnected') {
    this.connectionStatus = connectionStatus;
    this.calls = 0;
  }
  reconnect() {
    this.calls++;
    return new Promise((resolve, reject) => {
      this.succeeds = resolve;
      this.fails = reject;
    });
  }
}

const opened = kernel => ({ kernel, path: 'a.ipynb' });

const turn = () => new Promise(resolve => setImmediate(resolve));

test('kernels are reconnected when the server answers again', () => {
  const [model, lost, connected] = [new Model(), new Kernel(), new Kernel('connected')];
  reconnectKernels(model, () => [lost, connected].map(opened));
  model.shows('live');
  assert.equal(lost.calls, 0, 'a kernel that its user has shut down stays so');
  model.shows('away');
  assert.equal(lost.calls, 0);
  model.shows('live');
  assert.deepEqual([lost.calls, connected.calls], [1, 0]);
});

test('kernels are reconnected when another machine has woken the session', () => {
  const [model, kernel] = [new Model(), new Kernel()];
  reconnectKernels(model, () => [opened(kernel)]);
  model.shows('live', 'first');
  model.shows('live', 'first');
  assert.equal(kernel.calls, 0, 'the page was opened after that');
  model.shows('live', 'second');
  assert.equal(kernel.calls, 1);
});

test('a kernel that is not back yet is tried again, never twice at a time', async () => {
  const [model, kernel] = [new Model(), new Kernel()];
  let now = 0;
  reconnectKernels(
    model,
    () => [opened(kernel)],
    () => now
  );
  model.shows('away');
  model.shows('live');
  model.shows('live');
  assert.equal(kernel.calls, 1);
  kernel.fails(new Error('404'));
  await turn();
  model.shows('live');
  assert.equal(kernel.calls, 2);
  now += 4_999;
  model.shows('live');
  assert.equal(kernel.calls, 2, 'JupyterLab may be about to be connected');
  now += 1;
  model.shows('live');
  assert.equal(kernel.calls, 3, 'its next try may be far');
});

test('a kernel that slept is not asked for before it has started', () => {
  const [model, kernel] = [new Model(), new Kernel()];
  reconnectKernels(model, () => [opened(kernel)]);
  const woken = state => [
    { path: 'b.ipynb', state: 'done' },
    { path: 'a.ipynb', state }
  ];
  model.shows('away');
  model.shows('live', 'first', woken('waiting'));
  model.shows('live', 'first', woken('starting'));
  assert.equal(kernel.calls, 0);
  model.shows('live', 'first', woken('restoring'));
  assert.equal(kernel.calls, 1);
});

test('nothing is reconnected any more once it is disposed', () => {
  const [model, kernel] = [new Model(), new Kernel()];
  reconnectKernels(model, () => [opened(kernel)]).dispose();
  model.shows('away');
  model.shows('live');
  assert.equal(kernel.calls, 0);
});
