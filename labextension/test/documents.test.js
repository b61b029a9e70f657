import assert from 'node:assert/strict';
import { test } from 'node:test';

import { openDocument } from '../lib/commands/documents.js';

const shell = (...contexts) => ({ widgets: () => contexts.map(context => ({ context })) });

test('an open document is found by its path', () => {
  const context = { path: 'a.ipynb', isReady: true };
  assert.equal(openDocument(shell(undefined, context), 'a.ipynb'), context);
  assert.equal(openDocument(shell(context), 'b.ipynb'), null);
});

test('a document that is not loaded yet has nothing to run: its file has', () => {
  assert.equal(openDocument(shell({ path: 'a.ipynb', isReady: false }), 'a.ipynb'), null);
});
