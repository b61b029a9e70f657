import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ConnectionState } from '../lib/model/connectionState.js';

test('a 404 before the first response means that the extension is missing', () => {
  const server = new ConnectionState();
  assert.equal(server.phase, 'loading');
  server.failed(404);
  assert.equal(server.phase, 'absent');
});

test('a 404 after a response is an ordinary failure', () => {
  const server = new ConnectionState();
  server.answered();
  server.failed(404);
  assert.equal(server.phase, 'live');
  server.failed(404);
  assert.equal(server.phase, 'away');
  server.failed(404);
  assert.equal(server.phase, 'away');
  server.answered();
  assert.equal(server.phase, 'live');
});

test('one lost request changes nothing, not even the first', () => {
  const server = new ConnectionState();
  server.failed(null);
  assert.equal(server.phase, 'loading');
  server.failed(404);
  assert.equal(server.phase, 'away');
  server.answered();
  server.failed(503);
  assert.equal(server.phase, 'live');
});
