import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import { ScrollRestoration } from '../lib/documents/scrollRestoration.js';

const HEIGHT = 100;
const AT_CELL_30 = { cell: 'cell 30', offset: 12, active: 'cell 31' };

const turn = () => new Promise(resolve => setImmediate(resolve));

/** A windowed notebook of fifty cells: one is in the document once it is scrolled to. */
class Notebook {
  constructor() {
    const notebook = this;
    this.above = 0;
    this.activeCellIndex = 0;
    this.activeCellChanged = new Signal(this);
    this.outerNode = Object.assign(new EventTarget(), {
      clientHeight: 300,
      scrollTop: 0,
      getBoundingClientRect: () => ({ top: 0 })
    });
    this.widgets = Array.from({ length: 50 }, (_, index) => ({
      model: { id: `cell ${index}` },
      node: {
        isConnected: index < 3,
        getBoundingClientRect() {
          const top = notebook.above + index * HEIGHT - notebook.outerNode.scrollTop;
          return { top, bottom: top + HEIGHT };
        }
      }
    }));
  }
  async scrollToItem(index) {
    this.widgets[index].node.isConnected = true;
    this.outerNode.scrollTop = this.above + index * HEIGHT;
  }
}

/** Open a notebook of which this position is known; `wait` passes the time. */
async function open(context, position) {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  globalThis.document = new EventTarget();
  globalThis.window = { location: { hash: '' } };
  context.after(() => {
    delete globalThis.document;
    delete globalThis.window;
  });
  const saved = [];
  const positions = {
    get: async () => position,
    set: async (path, value) => void saved.push([path, value])
  };
  const content = new Notebook();
  const panel = { content, revealed: Promise.resolve() };
  panel.disposed = new Signal(panel);
  const file = { path: 'a.ipynb', ready: Promise.resolve() };
  const restoration = new ScrollRestoration(positions);
  restoration.createNew(panel, file);
  context.after(() => restoration.dispose());
  const wait = async milliseconds => {
    for (let waited = 0; waited < milliseconds; waited += 100) {
      await turn();
      context.mock.timers.tick(100);
    }
    await turn();
  };
  await wait(200);
  return { notebook: content, wait, saved, restoration };
}

test('a notebook is scrolled to where it was until it stays there', async context => {
  const { notebook, wait } = await open(context, AT_CELL_30);
  assert.equal(notebook.outerNode.scrollTop, 30 * HEIGHT + 12);
  assert.equal(notebook.activeCellIndex, 31);
  notebook.above = 400; // outputs above are rendered
  await wait(200);
  assert.equal(notebook.outerNode.scrollTop, 400 + 30 * HEIGHT + 12);
  await wait(2_000);
  notebook.outerNode.scrollTop = 70; // by a command, say
  await wait(1_000);
  assert.equal(notebook.outerNode.scrollTop, 70);
});

test('a notebook that its user scrolls is left to them', async context => {
  const { notebook, wait } = await open(context, AT_CELL_30);
  globalThis.document.dispatchEvent(new Event('wheel'));
  notebook.outerNode.scrollTop = 70;
  await wait(1_000);
  assert.equal(notebook.outerNode.scrollTop, 70);
});

test('a notebook whose cell was deleted stays at its top', async context => {
  const { notebook } = await open(context, { ...AT_CELL_30, cell: 'gone' });
  assert.equal(notebook.outerNode.scrollTop, 0);
});

test('the place is saved once a notebook is no longer scrolled', async context => {
  const { notebook, wait, saved } = await open(context, undefined);
  notebook.outerNode.scrollTop = 120;
  notebook.outerNode.dispatchEvent(new Event('scroll'));
  await wait(300);
  assert.deepEqual(saved, []);
  notebook.outerNode.dispatchEvent(new Event('scroll'));
  await wait(1_000);
  assert.deepEqual(saved, [['a.ipynb', { cell: 'cell 1', offset: 20, active: 'cell 0' }]]);
});

test('once the extension is not active, no open notebook is followed', async context => {
  const { notebook, wait, saved, restoration } = await open(context, undefined);
  restoration.dispose();
  notebook.outerNode.scrollTop = 120;
  notebook.outerNode.dispatchEvent(new Event('scroll'));
  await wait(1_000);
  assert.deepEqual(saved, []);
});
