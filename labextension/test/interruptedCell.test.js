import assert from 'node:assert/strict';
import { test } from 'node:test';

import { interruptedCell } from '../lib/model/interruptedCell.js';
import { openCell } from '../lib/documents/pythonNotebook.js';

const kernel = (path, interrupted_cell) => ({ path, interrupted_cell });

test('the first cell that was interrupted is the one to go to', () => {
  const kernels = [
    kernel('a.ipynb', null),
    kernel('', ''),
    kernel('b.ipynb', 'c'),
    kernel('d', 'e')
  ];
  assert.deepEqual(interruptedCell({ kernels }), { path: 'b.ipynb', cellId: 'c' });
  assert.equal(interruptedCell({ kernels: kernels.slice(0, 2) }), null);
  assert.equal(interruptedCell({ kernels: [kernel('a.ipynb', undefined)] }), null);
  assert.equal(interruptedCell(null), null);
});

test('going to a cell opens its notebook there', async () => {
  for (const [cellId, active] of [
    ['second', 1],
    ['deleted', 0]
  ]) {
    const scrolled = [];
    const cells = ['first', 'second'].map(id => ({ getId: () => id }));
    const content = {
      model: { sharedModel: { cells, insertCell() {} } },
      activeCellIndex: 0,
      deselectAll() {},
      scrollToItem: async index => void scrolled.push(index)
    };
    const panel = { content, context: {}, sessionContext: {} };
    const asked = [];
    const execute = async (...command) => {
      asked.push(command);
      return panel;
    };
    await openCell({ commands: { execute } }, { path: 'a.ipynb', cellId });
    assert.deepEqual(asked, [['docmanager:open', { path: 'a.ipynb' }]]);
    assert.equal(content.activeCellIndex, active);
    assert.deepEqual(scrolled, active ? [1] : []);
  }
});
