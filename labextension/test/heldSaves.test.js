import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import './apputils.js';
import { trans } from './trans.js';

const { Notification } = await import('@jupyterlab/apputils');
const { ServerConnection } = await import('@jupyterlab/services');
const { ServerActions } = await import('../lib/commands/serverActions.js');
const { HeldSaves } = await import('../lib/documents/heldSaves.js');

const turn = () => new Promise(resolve => setImmediate(resolve));
const turns = async () => {
  for (let count = 0; count < 20; count++) {
    await turn();
  }
};

const refused = status => new ServerConnection.ResponseError(new Response('', { status }), 'no');
const unreachable = () => new ServerConnection.NetworkError(new TypeError('Failed to fetch'));

/** The file of one document; `answer` is what happens to each request. */
class Contents {
  constructor() {
    this.file = '';
    this.hash = 0;
    this.requests = [];
    this.answer = () => {};
  }
  async get() {
    this.requests.push('get');
    await turn();
    await this.answer('get');
    return { hash: this.hash };
  }
  async save(_, { content }) {
    this.requests.push('save');
    await turn();
    await this.answer('save');
    this.file = content;
    this.hash++;
    return {};
  }
}

/** A document whose `save` does what JupyterLab's `Context` does. */
class Document {
  constructor(contents, path = 'train.ipynb') {
    this.contents = contents;
    this.path = this.localPath = path;
    this.contentsModel = { writable: true };
    this.model = { dirty: false };
    this.model.contentChanged = new Signal(this.model);
    this.disposed = new Signal(this);
    this.text = '';
    this.hash = 0;
    this.dialogs = [];
  }
  type(text) {
    this.text += text;
    this.model.dirty = true;
    this.model.contentChanged.emit();
  }
  async revert() {
    this.hash = (await this.contents.get(this.path, {})).hash;
    this.text = '';
    this.type(this.contents.file);
  }
  async save() {
    const content = this.text;
    try {
      const { hash } = await this.contents.get(this.path, { content: false });
      if (hash === this.hash) {
        await this.contents.save(this.path, { content });
        this.hash = (await this.contents.get(this.path, { content: false })).hash;
      } else if (this.reverts) {
        await this.revert();
      } else {
        throw new Error('File Changed');
      }
      this.model.dirty = false;
    } catch (error) {
      if (error.name !== 'ModalCancelError') {
        this.dialogs.push(error.message);
      }
      throw error;
    }
  }
}

/** A page with one document; `goes` is what becomes of the server. */
function open(context) {
  globalThis.window = { setTimeout, clearTimeout };
  const contents = new Contents();
  const document = new Document(contents);
  const model = { view: { phase: 'live', status: { managed: true } }, isAnswering: true, asked: 0 };
  model.changed = new Signal(model);
  model.askWhile = () => {};
  model.ask = async () => {
    model.asked++;
    await turn();
    model.changed.emit();
  };
  const toasts = [];
  for (const level of ['success', 'warning']) {
    Notification[level] = text => toasts.push(text);
  }
  const widget = { context: document, isUntitled: true };
  const docRegistry = { widgetFactories: () => [], changed: new Signal({}) };
  const commands = {};
  commands.commandExecuted = new Signal(commands);
  const app = {
    serviceManager: { contents },
    shell: { currentWidget: null, widgets: () => [widget] },
    docRegistry,
    commands
  };
  const saves = new HeldSaves({ app, model, trans });
  saves.createNew({}, document);
  context.after(() => {
    saves.dispose();
    delete globalThis.window;
  });
  const actions = new ServerActions({ app, model, saves, trans });
  const goes = (phase, isAnswering, status) => {
    model.view = { phase, status: { managed: true, ...status } };
    model.isAnswering = isAnswering;
    model.changed.emit();
  };
  return {
    actions,
    contents,
    document,
    model,
    saves,
    toasts,
    goes,
    widget,
    /** Ctrl+S. */
    press: () => {
      const result = document.save();
      commands.commandExecuted.emit({ id: 'docmanager:save', result });
      return result.catch(() => {});
    }
  };
}

test('nothing is saved while the server is away, and all of it when it is back', async context => {
  const { contents, document, goes, toasts } = open(context);
  document.type('typed');
  goes('away', false);
  await assert.rejects(document.save(), { name: 'ModalCancelError' });
  assert.deepEqual(contents.requests, []);
  assert.equal(document.model.dirty, true);
  goes('live', true);
  await turns();
  assert.equal(contents.file, 'typed');
  assert.equal(document.model.dirty, false);
  assert.deepEqual(document.dialogs, []);
  assert.deepEqual(toasts, ['Your changes in train.ipynb are saved.']);
});

test('after the last save before a stop nothing is saved until the server is ready', async context => {
  const { contents, document, goes, saves } = open(context);
  goes('live', true, { stop: { reason: 'user' } });
  document.type('a');
  await document.save();
  assert.equal(contents.file, 'a', 'the last save');
  saves.hold();
  document.type('b');
  goes('live', true, { stop: { reason: 'user' } });
  await assert.rejects(document.save(), { name: 'ModalCancelError' });
  goes('away', false, { stop: { reason: 'user' } });
  await assert.rejects(document.save(), { name: 'ModalCancelError' });
  assert.equal(contents.file, 'a');
  goes('live', true, { wake: { state: 'waking' } });
  await turns();
  assert.equal(contents.file, 'ab');
});

test('a server that is back and is already being stopped gets a last save', async context => {
  const { contents, document, goes, saves } = open(context);
  goes('live', true, { stop: { reason: 'user', by: '' } });
  saves.hold();
  document.type('typed');
  goes('away', false, { stop: { reason: 'user', by: '' } });
  goes('live', true, { stop: { reason: 'user', by: '' } });
  await turns();
  assert.equal(contents.file, 'typed');
  assert.equal(document.model.dirty, false);
});

test('a stop in the place of another one gets a last save', async context => {
  const { contents, document, goes, saves } = open(context);
  saves.hold();
  document.type('typed');
  goes('live', true, { stop: { reason: 'idle', by: '' } });
  goes('live', true, { stop: { reason: 'idle', by: '', sleep: 'idle' } });
  await turns();
  assert.equal(contents.file, '', 'it is the same one');
  goes('live', true, { stop: { reason: 'admin', by: 'ada' } });
  await turns();
  assert.equal(contents.file, 'typed');
});

test('the last save before a stop is made while saves are held before another', async context => {
  const { actions, contents, document, goes, saves } = open(context);
  saves.hold();
  document.type('typed');
  goes('live', true, { stop: { reason: 'user', by: '' } });
  await actions.saveForStop();
  assert.equal(contents.file, 'typed');
  assert.equal(saves.isHolding, true);
});

test('a hidden tab, which hears of the stop alone, saves when it asks again', async context => {
  const { contents, document, model, saves } = open(context);
  saves.hold();
  document.type('typed');
  await assert.rejects(document.save(), { name: 'ModalCancelError' });
  assert.equal(model.asked, 1);
  assert.deepEqual(contents.requests, []);
  model.view = { phase: 'live', status: { managed: true } };
  await document.save();
  await turns();
  assert.equal(contents.file, 'typed');
});

for (const [what, error] of [
  ['does not answer', unreachable()],
  ['is replaced by the hub', refused(424)],
  ['cannot reach its hub', refused(500)]
]) {
  test(`a save during which the server ${what} shows no dialog`, async context => {
    const { contents, document, goes, model } = open(context);
    document.type('typed');
    model.isAnswering = false;
    contents.answer = async kind => {
      if (kind === 'save') {
        throw error;
      }
    };
    await assert.rejects(document.save(), { name: 'ModalCancelError' });
    assert.deepEqual(document.dialogs, []);
    contents.answer = () => {};
    goes('live', true);
    await turns();
    assert.equal(contents.file, 'typed');
  });
}

test('a save that hangs ends when the server is away, and is made later', async context => {
  const { contents, document, goes } = open(context);
  document.type('typed');
  contents.answer = () => new Promise(() => {});
  const hanging = document.save();
  await turns();
  goes('away', false);
  await assert.rejects(hanging, { name: 'ModalCancelError' });
  contents.answer = () => {};
  goes('live', true);
  await turns();
  assert.equal(contents.file, 'typed');
  assert.deepEqual(document.dialogs, []);
});

test('what the server itself refuses is shown by JupyterLab', async context => {
  const { contents, document } = open(context);
  document.type('typed');
  contents.answer = () => {
    throw refused(507);
  };
  await assert.rejects(document.save(), ServerConnection.ResponseError);
  assert.equal(document.dialogs.length, 1);
});

test('a file that does not exist any more is no failure of the server', async context => {
  const { contents, document, model } = open(context);
  document.type('typed');
  contents.answer = () => {
    throw refused(404);
  };
  await assert.rejects(document.save(), ServerConnection.ResponseError);
  assert.equal(document.dialogs.length, 1);
  model.isAnswering = false;
  await assert.rejects(document.save(), { name: 'ModalCancelError' });
  assert.equal(document.dialogs.length, 1, 'the hub has answered in the place of the server');
});

test('a proxy that refuses although the server answers is shown the second time', async context => {
  const { contents, document, goes } = open(context);
  document.type('typed');
  contents.answer = () => {
    throw refused(502);
  };
  await assert.rejects(document.save(), { name: 'ModalCancelError' });
  assert.deepEqual(document.dialogs, []);
  goes('live', true);
  await turns();
  assert.equal(document.dialogs.length, 1);
  goes('live', true);
  await turns();
  assert.equal(document.dialogs.length, 1);
});

test('what is typed while a document is saved stays unsaved', async context => {
  const { contents, document } = open(context);
  document.type('a');
  const saving = document.save();
  document.type('b');
  await saving;
  assert.equal(contents.file, 'a');
  assert.equal(document.model.dirty, true);
  await document.save();
  assert.equal(contents.file, 'ab');
  assert.equal(document.model.dirty, false);
});

test('a document that is reverted when it is saved has no changes', async context => {
  const { contents, document } = open(context);
  document.type('here');
  contents.file = 'elsewhere';
  contents.hash++;
  document.reverts = true;
  await document.save();
  assert.equal(document.text, 'elsewhere');
  assert.equal(document.model.dirty, false);
  document.type(', and here');
  await document.save();
  assert.equal(contents.file, 'elsewhere, and here');
});

test('what is typed after a revert, before the save has ended, stays unsaved', async context => {
  const { contents, document } = open(context);
  document.type('here');
  contents.hash++;
  document.reverts = true;
  const { revert } = document;
  document.revert = async () => {
    await revert.call(document);
    document.type('typed');
  };
  await document.save();
  assert.equal(document.model.dirty, true);
});

test('two saves at once follow each other', async context => {
  const { contents, document } = open(context);
  document.type('a');
  const first = document.save();
  await turn();
  document.type('b');
  await Promise.all([first, document.save()]);
  assert.equal(contents.file, 'ab');
  assert.deepEqual(document.dialogs, []);
});

test('a save that waits for another is held with the others', async context => {
  const { contents, document, goes, saves } = open(context);
  document.type('a');
  const last = document.save();
  await turn();
  document.type('b');
  const waiting = document.save();
  saves.hold();
  await last;
  await assert.rejects(waiting, { name: 'ModalCancelError' });
  assert.equal(contents.file, 'a');
  goes('live', true);
  await turns();
  assert.equal(contents.file, 'ab');
});

test('a person who saves meanwhile reads when it will be saved', async context => {
  const { document, goes, press, toasts } = open(context);
  await press();
  await turns();
  assert.deepEqual(toasts, []);
  goes('away', false);
  document.type('typed');
  await press();
  await turns();
  assert.deepEqual(toasts, [
    'Unsaved changes in train.ipynb\n' +
      'They are saved as soon as this server runs again. Keep this page open.'
  ]);
});

test('no name is asked for at a save that is held, but at the first one after', async context => {
  const { goes, saves, widget } = open(context);
  goes('live', true);
  assert.equal(widget.isUntitled, true);
  saves.hold();
  assert.equal(widget.isUntitled, false);
  goes('away', false);
  assert.equal(widget.isUntitled, false);
  goes('live', true);
  assert.equal(widget.isUntitled, true);
  goes('away', false);
  saves.dispose();
  assert.equal(widget.isUntitled, true);
});

test('without an agent JupyterLab saves as always', async context => {
  const { document, goes } = open(context);
  document.type('typed');
  document.contents.answer = () => {
    throw unreachable();
  };
  goes('away', false, { managed: false });
  await assert.rejects(document.save(), ServerConnection.NetworkError);
  assert.equal(document.dialogs.length, 1);
});

test('nothing is left of it after its end', async context => {
  const { contents, document, goes, saves } = open(context);
  saves.dispose();
  goes('away', false);
  document.type('typed');
  await document.save();
  assert.equal(contents.file, 'typed');
});
