import assert from 'node:assert/strict';
import { test } from 'node:test';

import './apputils.js';
import { trans } from './trans.js';

const { Notification } = await import('@jupyterlab/apputils');
const { ServerConnection } = await import('@jupyterlab/services');
const { Signal } = await import('@lumino/signaling');
const { HardwareChange } = await import('../lib/commands/hardwareChange.js');

const SERVER = 'http://server/';
/** Made while there is no `document`: JupyterLab would parse the address with it. */
const SETTINGS = ServerConnection.makeSettings({ baseUrl: SERVER });

const move = state => Response.json({ state, profile_name: 'A10G, 24 GB', message: '' });
const refusal = status => new Response('{}', { status });
const silence = () => {
  throw new TypeError('Failed to fetch');
};

/** What becomes of a choice where the server answers so, one after the other: how often it was
 * asked, the errors shown, and what dismisses them when the view of the server becomes another. */
async function chosen(context, ...answers) {
  const append = () => {};
  const createElement = name => (name === 'a' ? new URL(SERVER) : { append, setAttribute: append });
  const document = { cookie: '', createElement };
  const window = { setTimeout: call => setImmediate(call), clearTimeout: () => {} };
  Object.assign(globalThis, { document, window });
  globalThis.answerDialog = async () => ({ button: { accept: true }, value: 'a10g' });
  context.after(() => {
    for (const name of ['document', 'window', 'answerDialog']) {
      delete globalThis[name];
    }
  });
  const errors = [];
  Notification.error = message => errors.push(message);
  const dismissed = [];
  context.mock.method(Notification, 'dismiss', id => dismissed.push(id));
  const choice = { profile: 'a10g', name: 'A10G, 24 GB', usd_per_hour: 1, refusal: '' };
  const replies = [() => Response.json({ choices: [choice] }), ...answers];
  let asked = 0;
  const fetch = async () => replies[Math.min(asked++, replies.length - 1)]();
  const app = { serviceManager: { serverSettings: { ...SETTINGS, fetch } } };
  const model = { view: { phase: 'live', status: { stop: null, cost: null } }, refresh: () => {} };
  model.changed = new Signal(model);
  await new HardwareChange({ app, model, trans }).run();
  const afterwards = view => {
    dismissed.length = 0;
    model.view = view;
    model.changed.emit();
    return dismissed.length;
  };
  return { asked: asked - 1, errors, afterwards };
}

/** The same of a move that has begun: how often it was asked after that. */
async function moved(context, ...answers) {
  const { asked, errors } = await chosen(context, () => move('looking'), ...answers);
  return { asked: asked - 1, errors };
}

test('a choice that is refused changes nothing', async context => {
  const { asked, errors } = await chosen(context, () => refusal(409));
  assert.equal(asked, 1);
  assert.match(errors[0], /stays as it is/);
});

for (const answer of [silence, () => refusal(503)]) {
  test('a choice without an answer may have begun a move', async context => {
    const { asked, errors } = await chosen(context, answer);
    assert.equal(asked, 1);
    assert.match(errors[0], /may still move/);
  });
}

test('what is not known of a move is shown until the server stops for it', async context => {
  const { afterwards } = await chosen(context, silence);
  const live = { phase: 'live', status: { stop: null } };
  assert.equal(afterwards(live), 0);
  assert.equal(afterwards({ phase: 'live', status: { stop: { reason: 'user' } } }), 1);
  assert.equal(afterwards({ phase: 'away', status: null }), 0, 'once');
});

test('a move is followed over the answers of whoever stands in for its server', async context => {
  const standIns = [404, 424, 502, 503, 504].map(status => () => refusal(status));
  const { asked, errors } = await moved(context, silence, ...standIns, () => move('none'));
  assert.deepEqual([asked, errors], [7, []]);
});

for (const status of [400, 403, 409, 429, 500]) {
  test(`a refusal with ${status} ends the wait for a move at once`, async context => {
    const { asked, errors } = await moved(context, () => refusal(status));
    assert.deepEqual([asked, errors.length], [1, 1]);
    assert.match(errors[0], /may still move/, 'the move has begun');
  });
}

test('an error of the page itself is not taken for silence', async context => {
  const broken = () => ({ ok: true, text: () => Promise.reject(new RangeError('a bug')) });
  const { asked, errors } = await moved(context, broken);
  assert.deepEqual([asked, errors.length], [1, 1]);
});

test('a server that stays silent is not asked without end', async context => {
  const { asked, errors } = await moved(context, silence);
  assert.deepEqual([asked, errors.length], [20, 1]);
});
