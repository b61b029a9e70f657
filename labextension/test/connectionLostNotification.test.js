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
