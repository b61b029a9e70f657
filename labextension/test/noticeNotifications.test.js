import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import './apputils.js';
import { trans } from './trans.js';

const { LAST_SAVE_MS } = await import('../lib/notices/lastSave.js');
const { NoticeNotifications } = await import('../lib/notices/noticeNotifications.js');

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

/** An open notebook. */
class Notebook {
  constructor() {
    this.saves = 0;
    this.model = { dirty: false };
    this.path = 'a.ipynb';
    this.contentsModel = { writable: true };
  }
  type() {
    this.model.dirty = true;
  }
  async save() {
    this.saves += 1;
    this.model.dirty = false;
  }
}

/** A page with a notebook; `says` is a status with these notices, so many ms from now. */
function open(context) {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const page = { document: new EventTarget(), window: { setTimeout, clearTimeout } };
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
  const shown = new NoticeNotifications({
    model,
    actions: { keepUntil: null, saveForStop: () => notebook.save() },
    settings: { current: { notices: true } },
    shell: { widgets: () => [{ context: notebook }] },
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
  const says = (...notices) => {
    model.view = { phase: 'live', status: { now: at(0), notices } };
    model.changed.emit();
  };
  return { notebook, says, after: milliseconds => context.mock.timers.tick(milliseconds) };
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
