import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MAX_POSITIONS, readPositions, ScrollPositions } from '../lib/documents/scrollPositions.js';
import { currentPosition } from '../lib/documents/scrollRestoration.js';

/** A state database that stores what JSON can. */
class State {
  async fetch(id) {
    return this[id] && JSON.parse(this[id]);
  }
  async save(id, value) {
    this[id] = JSON.stringify(value);
  }
}

const at = cell => ({ cell, offset: 12, active: '' });

/** A notebook whose cells are so high, scrolled so far; one of height null is not in the document. */
function notebook(heights, scrolled, { active = -1, clientHeight = 300 } = {}) {
  let bottom = 100 - scrolled;
  const widgets = heights.map((height, index) => {
    const top = bottom;
    bottom += height ?? 0;
    const box = { top, bottom };
    const node = { isConnected: height !== null, getBoundingClientRect: () => box };
    return { model: { id: `cell ${index}` }, node };
  });
  const outerNode = { clientHeight, getBoundingClientRect: () => ({ top: 100 }) };
  return { widgets, outerNode, activeCellIndex: active };
}

test('a position is there when the page is loaded again', async () => {
  const state = new State();
  const before = new ScrollPositions(state);
  await before.set('a.ipynb', at('one'));
  await before.set('a.ipynb', at('two'));
  const after = new ScrollPositions(state);
  assert.deepEqual(await after.get('a.ipynb'), at('two'));
  assert.equal(await after.get('b.ipynb'), undefined);
});

test('the notebooks that were scrolled longest ago are forgotten', async () => {
  const state = new State();
  const positions = new ScrollPositions(state);
  for (let number = 0; number < MAX_POSITIONS; number++) {
    await positions.set(`${number}.ipynb`, at('a'));
  }
  await positions.set('0.ipynb', at('b'));
  await positions.set('new.ipynb', at('c'));
  const after = new ScrollPositions(state);
  assert.equal(await after.get('1.ipynb'), undefined);
  for (const path of ['0.ipynb', '2.ipynb', 'new.ipynb']) {
    assert.ok(await after.get(path), path);
  }
});

test('a workspace that something else has written is no error', async () => {
  const good = { path: 'a', cell: 'b', offset: 1, active: '' };
  for (const value of [
    undefined,
    null,
    1,
    'text',
    {},
    [null, 1, [], {}, { ...good, offset: null }]
  ]) {
    assert.deepEqual(readPositions(value), []);
  }
  assert.deepEqual(readPositions([{ ...good, more: 1 }, 'text']), [good]);
  const broken = { fetch: () => Promise.reject(new Error('no workspace')), save: async () => {} };
  const positions = new ScrollPositions(broken);
  assert.equal(await positions.get('a'), undefined);
  await positions.set('a', at('b'));
  assert.deepEqual(await positions.get('a'), at('b'));
});

test('the position is the first visible cell and how much of it is above', () => {
  const position = (...args) => currentPosition(notebook(...args));
  assert.deepEqual(position([50, 200, 80], 0), { cell: 'cell 0', offset: 0, active: '' });
  assert.deepEqual(position([50, 200, 80], 50), { cell: 'cell 1', offset: 0, active: '' });
  assert.deepEqual(position([50, 200, 80], 170, { active: 2 }), {
    cell: 'cell 1',
    offset: 120,
    active: 'cell 2'
  });
});

test('cells outside of the document and hidden notebooks have no position', () => {
  assert.equal(currentPosition(notebook([null, null, 80], 10)).cell, 'cell 2');
  assert.equal(currentPosition(notebook([50, 80], 10, { clientHeight: 0 })), null);
  assert.equal(currentPosition(notebook([], 0)), null);
});
