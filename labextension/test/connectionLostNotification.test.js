import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import './apputils.js';
import { trans } from './trans.js';

const { Notification } = await import('@jupyterlab/apputils');
const { ConnectionLostNotification } = await import('../lib/notices/connectionLostNotification.js');

/** An open document with these unsaved changes. */
const opened = localPath => ({
  localPath,
  contentsModel: { writable: true },
  model: { dirty: true, toString: () => localPath }
});

test('the button downloads what is unsaved when it is pressed', context => {
  const downloads = [];
  const createElement = () => ({
    click() {
      downloads.push(this.download);
    }
  });
  const document = { createElement, getElementById: () => null, querySelector: () => null };
  Object.assign(globalThis, { document, window: { setTimeout: () => {} } });
  const shown = [];
  context.mock.method(Notification, 'emit', (...said) => shown.push(said));
  const documents = [opened('early.py')];
  const shell = { currentWidget: null, widgets: () => documents.map(each => ({ context: each })) };
  const view = { phase: 'away', status: { managed: true }, now: 0, problem: '', end: null };
  const model = { view };
  model.changed = new Signal(model);
  const saves = { isHolding: true };
  const lost = new ConnectionLostNotification({ app: { shell }, model, saves, trans });
  context.after(() => {
    lost.dispose();
    delete globalThis.document;
    delete globalThis.window;
  });
  model.changed.emit();
  const [[, , { actions }]] = shown;
  documents[0].model.dirty = false;
  documents.push(opened('late.py'));
  actions.at(-1).callback({ preventDefault: () => {} });
  assert.deepEqual(downloads, ['late.py']);
});

/** The toasts of a page whose login is refused, and the addresses that it has opened. */
function signedOut(context, { canControl }) {
  const reached = [];
  const location = {
    href: 'http://server/lab#heading',
    assign: url => reached.push(url),
    reload: () => reached.push('reload')
  };
  const document = { getElementById: () => null, querySelector: () => null };
  Object.assign(globalThis, { document, window: { location, setTimeout: () => {} } });
  const shown = [];
  context.mock.method(Notification, 'emit', (...said) => shown.push(said));
  const status = { managed: true, can_control: canControl };
  const model = {
    view: { phase: 'away', status, isSignedOut: true, now: 0, problem: '', end: null }
  };
  model.changed = new Signal(model);
  const app = { shell: { currentWidget: null, widgets: () => [] } };
  const lost = new ConnectionLostNotification({ app, model, saves: { isHolding: false }, trans });
  context.after(() => {
    lost.dispose();
    delete globalThis.document;
    delete globalThis.window;
  });
  model.changed.emit();
  const labels = () => shown.at(-1)[2].actions.map(({ label }) => label);
  const press = () => shown.at(-1)[2].actions[0].callback({ preventDefault: () => {} });
  return { model, shown, reached, labels, press };
}

test('a login is asked for by a reload, also where the address has a fragment', context => {
  const { reached, labels, press } = signedOut(context, { canControl: true });
  press();
  assert.deepEqual(reached, ['reload']);
  assert.deepEqual(labels(), ['Sign in again']);
});

test('a guest is asked once: the server may be shared no more', context => {
  const { model, shown, reached, labels, press } = signedOut(context, { canControl: false });
  assert.deepEqual(labels(), ['Sign in again']);
  press();
  assert.deepEqual([reached, labels()], [['reload'], []]);
  model.changed.emit();
  assert.deepEqual([shown.length, labels()], [2, []], 'and the toast still says why');
  const { view } = model;
  model.view = { ...view, phase: 'live', isSignedOut: false };
  model.changed.emit();
  model.view = view;
  model.changed.emit();
  assert.deepEqual(labels(), ['Sign in again'], 'after a login that counted');
});
