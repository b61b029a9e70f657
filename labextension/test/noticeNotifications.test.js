import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import './apputils.js';
import { trans } from './trans.js';

const { ServerConnection } = await import('@jupyterlab/services');
const { ServerActions } = await import('../lib/commands/serverActions.js');
const { Notification } = await import('@jupyterlab/apputils');
const { LAST_SAVE_MS } = await import('../lib/notices/lastSave.js');
const { NoticeNotifications } = await import('../lib/notices/noticeNotifications.js');

const SERVER = 'http://server/';
/** Made while there is no `document`: JupyterLab would parse the address with it. */
const SETTINGS = ServerConnection.makeSettings({ baseUrl: SERVER });
const NOW = Date.UTC(2026, 10, 20, 12, 0);
const MINUTE = 60_000;
const at = milliseconds => new Date(NOW + milliseconds).toISOString();

/** AWS reclaims the instance at `until`. */
const interruption = until => ({
  id: 'interruption',
  kind: 'interruption',
  level: 'error',
  title: { code: 'spot-reclaim', params: {} },
  details: [],
  stop: null,
  until,
  since: null,
  actions: []
});

/** A stop before which the hub waits until each open page has saved. */
const stopping = { ...interruption(null), id: 'stopping', kind: 'stopping' };

const turn = () => new Promise(resolve => setImmediate(resolve));

/** An open notebook; `written` counts the saves that have completed. */
class Notebook {
  constructor() {
    this.saves = 0;
    this.written = 0;
    this.model = { dirty: false };
    this.path = 'a.ipynb';
    this.contentsModel = { writable: true };
  }
  type() {
    this.model.dirty = true;
  }
  async save() {
    this.saves += 1;
    await turn();
    if (this.isOnFullDisk) {
      throw new Error('No space left on device');
    }
    this.model.dirty = false;
    this.written += 1;
  }
}

/**
 * A page with a notebook; `says` is a status with these notices, `reports` are what the page has
 * posted since, each with the number of saves that had completed by then, and `hold` where nothing
 * is saved from then on.
 */
function open(context) {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const page = { document: new EventTarget(), window: { setTimeout, clearTimeout } };
  page.document.cookie = '';
  page.document.createElement = () => new URL(SERVER); // an anchor, by which JupyterLab parses URLs
  page.document.getElementById = page.document.querySelector = () => null;
  page.MutationObserver = class {
    observe() {}
    disconnect() {}
  };
  Object.assign(globalThis, page);
  const notebook = new Notebook();
  const model = { view: { phase: 'live', status: null } };
  model.changed = new Signal(model);
  const events = { connect() {}, disconnect() {} };
  const shell = { widgets: () => [{ context: notebook }] };
  const reports = [];
  const unsaved = [];
  const fetch = async request => {
    reports.push([request.method, new URL(request.url).pathname, notebook.written]);
    unsaved.push((await request.json()).unsaved);
    return new Response('{}');
  };
  const app = { shell, serviceManager: { serverSettings: { ...SETTINGS, fetch } } };
  const saves = { release: () => {}, hold: () => reports.push('hold') };
  const shown = new NoticeNotifications({
    model,
    actions: new ServerActions({ app, model, saves, trans }),
    settings: { current: { notices: true } },
    shell,
    events,
    openPanel: () => {},
    trans
  });
  context.after(() => {
    shown.dispose();
    for (const name of Object.keys(page)) {
      delete globalThis[name];
    }
  });
  const status = {};
  const says = (...notices) => {
    model.view = { phase: 'live', status: { now: at(0), notices, ...status } };
    model.changed.emit();
  };
  return {
    notebook,
    status,
    reports,
    unsaved,
    says,
    after: milliseconds => context.mock.timers.tick(milliseconds)
  };
}

test('what is typed after a notice is saved again shortly before the end', context => {
  const { notebook, says, after } = open(context);
  notebook.type();
  says(interruption(at(2 * MINUTE)));
  assert.equal(notebook.saves, 1, 'at the notice');
  notebook.type();
  after(2 * MINUTE - LAST_SAVE_MS - 100);
  assert.equal(notebook.saves, 1);
  after(200);
  assert.equal(notebook.saves, 2);
  after(MINUTE);
  assert.equal(notebook.saves, 2);
});

test('an end that is moved to an earlier time is saved before that', context => {
  const { notebook, says, after } = open(context);
  says(interruption(at(10 * MINUTE)));
  notebook.type();
  says(interruption(at(MINUTE)));
  assert.equal(notebook.saves, 0, 'the notice was there before');
  after(MINUTE - LAST_SAVE_MS + 100);
  assert.equal(notebook.saves, 1);
});

test('nothing is saved for an end that is withdrawn', context => {
  const { notebook, says, after } = open(context);
  says(interruption(at(2 * MINUTE)));
  says();
  notebook.type();
  after(3 * MINUTE);
  assert.equal(notebook.saves, 0);
});

test('a stop that is announced saves what was typed, then reports that once', async context => {
  const { notebook, reports, says } = open(context);
  notebook.type();
  says(stopping);
  says(stopping);
  for (let turns = 0; turns < 100 && reports.length < 2; turns++) {
    await turn();
  }
  assert.equal(notebook.saves, 1);
  assert.deepEqual(reports, ['hold', ['POST', '/ec2spawner/api/saved', 1]]);
});

test('what cannot be saved before a stop is reported', async context => {
  const { notebook, unsaved, says } = open(context);
  notebook.type();
  notebook.isOnFullDisk = true;
  notebook.path = `a-folder/${'n'.repeat(300)}.ipynb`;
  says(stopping);
  for (let turns = 0; turns < 100 && unsaved.length === 0; turns++) {
    await turn();
  }
  assert.deepEqual(unsaved, [[`${'n'.repeat(194)}.ipynb`]]);
});

test('what AWS has announced for days is a warning that offers to continue elsewhere', context => {
  const { notebook, status, says } = open(context);
  const offered = [];
  context.mock.method(Notification, 'emit', (text, level, { actions }) => {
    offered.push([level, actions.map(action => action.label)]);
    return text;
  });
  const params = { at: (NOW + 9 * 24 * 60 * MINUTE) / 1000 };
  const announced = {
    ...interruption(null),
    id: 'instance-retirement-1',
    kind: 'scheduled-event',
    level: 'warning',
    title: { code: 'aws-stops', params },
    actions: ['continue']
  };
  const known = { managed: true, can_control: true, agent_connected: true, keep: [] };
  Object.assign(status, known);
  says(announced);
  says();
  status.can_sleep = true;
  says(announced);
  assert.deepEqual(offered, [
    ['warning', []],
    ['warning', ['Continue on…']]
  ]);
  assert.equal(notebook.saves, 0, 'nothing is about to end');
});

test('a notice offers sleep, where sleep is possible', context => {
  const { status, says } = open(context);
  const offered = [];
  context.mock.method(Notification, 'emit', (text, level, { actions }) => {
    offered.push(actions.map(({ label, displayType }) => [label, displayType]));
    return text;
  });
  const idle = { ...interruption(at(10 * MINUTE)), kind: 'idle', actions: ['sleep'] };
  const known = { managed: true, can_control: true, agent_connected: true, keep: [] };
  Object.assign(status, known, { can_sleep: true });
  says(idle);
  assert.deepEqual(offered, [[['Sleep now', 'accent']]]);
});

test('a sleep that its owner chose is a warning for others, who lose the server', context => {
  const { status, says } = open(context);
  const levels = [];
  context.mock.method(Notification, 'emit', (text, level) => {
    levels.push(level);
    return text;
  });
  const asleep = id => ({ ...interruption(null), id, kind: 'stopping', level: 'success' });
  Object.assign(status, { managed: true, can_control: true, keep: [] });
  says(asleep('1'));
  status.can_control = false;
  says(asleep('2'));
  assert.deepEqual(levels, ['success', 'warning']);
});
