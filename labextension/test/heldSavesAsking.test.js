import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import './apputils.js';
import { trans } from './trans.js';

const { Notification } = await import('@jupyterlab/apputils');
const { ServerConnection } = await import('@jupyterlab/services');
const { HeldSaves } = await import('../lib/documents/heldSaves.js');
const { StatusModel } = await import('../lib/model/statusModel.js');

const SERVER = 'http://server/';
/** Made while there is no `document`: JupyterLab would parse the address with it. */
const SETTINGS = ServerConnection.makeSettings({ baseUrl: SERVER });
const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** A page with a document of a server that `server.runs`, and is asked there; `hide` hides its tab. */
function open(context) {
  context.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  context.mock.method(Math, 'random', () => 0.5); // by which Lumino's Poll draws its intervals
  const document = Object.assign(new EventTarget(), { hidden: false, cookie: '' });
  document.createElement = () => new URL(SERVER); // an anchor, by which JupyterLab parses URLs
  const window = { setTimeout, clearTimeout, setInterval, clearInterval };
  Object.assign(globalThis, { document, window });
  Notification.success = Notification.warning = () => {};
  const server = { runs: true, asked: 0, answers: null };
  const fetch = async () => {
    server.asked++;
    await server.answers;
    if (!server.runs) {
      throw new TypeError('Failed to fetch');
    }
    return Response.json({ now: new Date().toISOString(), managed: true });
  };
  const notebook = {
    path: 'train.ipynb',
    localPath: 'train.ipynb',
    contentsModel: { writable: true }
  };
  notebook.model = { dirty: false };
  notebook.model.contentChanged = new Signal(notebook.model);
  notebook.disposed = new Signal(notebook);
  const contents = {
    get: async () => {},
    save: async () => {
      if (!server.runs) {
        throw new ServerConnection.NetworkError(new TypeError('Failed to fetch'));
      }
    }
  };
  notebook.revert = async () => {};
  notebook.save = async () => {
    await contents.save(notebook.path, {});
    notebook.model.dirty = false;
  };
  const model = new StatusModel({ serverSettings: { ...SETTINGS, fetch } });
  const commands = {};
  commands.commandExecuted = new Signal(commands);
  const app = {
    serviceManager: { contents },
    shell: { currentWidget: null, widgets: () => [{ context: notebook }] },
    docRegistry: { widgetFactories: () => [], changed: new Signal({}) },
    commands
  };
  const saves = new HeldSaves({ app, model, trans });
  saves.createNew({}, notebook);
  context.after(() => {
    saves.dispose();
    model.dispose();
    delete globalThis.document;
    delete globalThis.window;
  });
  return {
    notebook,
    model,
    server,
    hide: () => (document.hidden = true),
    /** Lets so many ms pass, with what happens in between. */
    pass: async milliseconds => {
      for (let passed = 0; passed < milliseconds; passed += SECOND) {
        context.mock.timers.tick(SECOND);
        for (let turns = 0; turns < 10; turns++) {
          await new Promise(resolve => setImmediate(resolve));
        }
      }
    }
  };
}

test('a hidden tab whose saves have failed saves by itself when the server is back', async context => {
  const { notebook, model, server, hide, pass } = open(context);
  await pass(5 * SECOND);
  assert.equal(model.view.phase, 'live');
  hide();
  server.runs = false;
  notebook.model.dirty = true;
  for (let autosaves = 0; autosaves < 2; autosaves++) {
    await assert.rejects(notebook.save(), { name: 'ModalCancelError' });
  }
  assert.equal(model.view.phase, 'away');
  const before = server.asked;
  await pass(10 * MINUTE);
  assert.ok(server.asked > before, 'it asks');
  assert.ok(
    server.asked - before < 30,
    `with growing intervals, not ${server.asked - before} times`
  );
  assert.equal(notebook.model.dirty, true);
  server.runs = true;
  await pass(2 * MINUTE);
  assert.equal(notebook.model.dirty, false, 'nobody has looked at the tab');
});

test('a hidden tab that has nothing to save does not ask', async context => {
  const { model, server, hide, pass } = open(context);
  await pass(5 * SECOND);
  hide();
  server.runs = false;
  await model.ask();
  await model.ask();
  assert.equal(model.view.phase, 'away');
  const before = server.asked;
  await pass(10 * MINUTE);
  assert.equal(server.asked, before);
});

test('two documents whose saves fail at once ask once, which is no news', async context => {
  const { model, server, hide, pass } = open(context);
  await pass(5 * SECOND);
  hide();
  server.runs = false;
  const before = server.asked;
  await Promise.all([model.ask(), model.ask()]);
  assert.equal(server.asked - before, 1);
  assert.equal(model.view.phase, 'live');
  await model.ask();
  assert.equal(model.view.phase, 'away');
});

test('a poll and a save that fail at once are no news', async context => {
  const { model, server, pass } = open(context);
  await pass(5 * SECOND);
  server.runs = false;
  let answer;
  server.answers = new Promise(resolve => {
    answer = resolve;
  });
  const before = server.asked;
  const asking = model.ask();
  await pass(5 * SECOND);
  assert.equal(server.asked - before, 2);
  answer();
  await asking;
  await pass(SECOND);
  assert.equal(model.view.phase, 'live');
});
