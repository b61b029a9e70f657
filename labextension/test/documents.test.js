import assert from 'node:assert/strict';
import { test } from 'node:test';

import { openDocument, save } from '../lib/commands/documents.js';

const shell = (...contexts) => ({ widgets: () => contexts.map(context => ({ context })) });

test('an open document is found by its path', () => {
  const context = { path: 'a.ipynb', isReady: true };
  assert.equal(openDocument(shell(undefined, context), 'a.ipynb'), context);
  assert.equal(openDocument(shell(context), 'b.ipynb'), null);
});

test('a document that is not loaded yet has nothing to run: its file has', () => {
  assert.equal(openDocument(shell({ path: 'a.ipynb', isReady: false }), 'a.ipynb'), null);
});

/** A document whose saves leave it changed or not, one after the other; null: the save fails. */
function changed(outcomes, writable = true) {
  const context = { model: { dirty: true }, contentsModel: { writable }, saves: 0 };
  context.save = async () => {
    const isChanged = outcomes[context.saves++];
    if (isChanged === null) {
      throw new Error('no space left');
    }
    context.model.dirty = isChanged;
  };
  return context;
}

for (const [what, context, isSaved, saves] of [
  ['of which nothing changes', changed([false]), true, 1],
  ['into which its kernel is written meanwhile', changed([true, false]), true, 2],
  ['whose cell prints all the time', changed([true, true, true]), true, 2],
  ['that cannot be saved', changed([null]), false, 1],
  ['that cannot be saved with what has changed', changed([true, null]), false, 2],
  ['that is read-only', changed([], false), false, 0],
  ['without changes', { ...changed([]), model: { dirty: false } }, true, 0]
]) {
  test(`a document is saved before its run: one ${what}`, async () => {
    assert.equal(await save(context), isSaved);
    assert.equal(context.saves, saves);
  });
}
