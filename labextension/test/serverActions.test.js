import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import './apputils.js';
import { trans } from './trans.js';

const { ServerConnection } = await import('@jupyterlab/services');
const { ServerActions } = await import('../lib/commands/serverActions.js');

const SERVER = 'http://server/';
/** Made while there is no `document`: JupyterLab would parse the address with it. */
const SETTINGS = ServerConnection.makeSettings({ baseUrl: SERVER });

/**
 * A page whose person presses `label` in each dialog. `asked` are the buttons and texts of those,
 * `requests` what the page has requested then.
 */
function page(context, { label, ...status }) {
  globalThis.document = {
    cookie: '',
    createElement: name => (name === 'a' ? new URL(SERVER) : {})
  };
  globalThis.window = { clearTimeout, setTimeout };
  const asked = [];
  globalThis.answerDialog = async ({ buttons, body, defaultButton }) => {
    asked.push({
      labels: buttons.map(button => button.label),
      main: buttons[defaultButton].label,
      texts: body.node.texts.map(({ textContent }) => textContent)
    });
    return { button: buttons.find(button => button.label === label) };
  };
  context.after(() => {
    for (const name of ['document', 'window', 'answerDialog']) {
      delete globalThis[name];
    }
  });
  const view = {
    phase: 'live',
    status: {
      managed: true,
      can_control: true,
      agent_connected: true,
      stop: null,
      files_kept: true,
      can_sleep: true,
      cost: null,
      ...status
    }
  };
  const model = { view, refresh: () => {} };
  model.changed = new Signal(model);
  const requests = [];
  const fetch = async request => {
    requests.push(new URL(request.url).pathname.split('/').at(-1));
    return new Response('{}');
  };
  const app = {
    shell: { widgets: () => [] },
    serviceManager: { serverSettings: { ...SETTINGS, fetch } }
  };
  const saves = { release: () => {}, hold: () => {} };
  return { actions: new ServerActions({ app, model, saves, trans }), asked, requests };
}

test('a stop offers sleep first, which loses nothing', async context => {
  const { actions, asked, requests } = page(context, { label: 'Sleep now' });
  assert.equal(await actions.stop(), true);
  assert.deepEqual(asked[0].labels, ['Cancel', 'Sleep now', 'Stop now']);
  assert.equal(asked[0].main, 'Sleep now');
  assert.deepEqual(requests, ['sleep'], 'and asks no second time');
});

test('a stop that cannot save variables offers no sleep', async context => {
  const { actions, asked, requests } = page(context, { label: 'Stop now', can_sleep: false });
  assert.equal(await actions.stop(), true);
  assert.deepEqual(asked[0].labels, ['Cancel', 'Stop now']);
  assert.equal(asked[0].main, 'Cancel');
  assert.deepEqual(requests, ['stop']);
});

test('a dialog that is dismissed ends nothing', async context => {
  const { actions, requests } = page(context, { label: 'Cancel' });
  assert.equal(await actions.stop(), false);
  assert.equal(await actions.sleep(), false);
  assert.deepEqual(requests, []);
});

test('what ends with the server is said before it is stopped or sleeps', async context => {
  const cost = { limits: [], workers: { count: 2 } };
  const { actions, asked } = page(context, { label: 'Cancel', cost });
  await actions.stop();
  await actions.sleep();
  for (const { texts } of asked) {
    assert.match(texts.join(' '), /The 2 workers of its cluster end, too/);
  }
  const alone = page(context, { label: 'Cancel' });
  await alone.actions.stop();
  assert.doesNotMatch(alone.asked[0].texts.join(' '), /worker/);
});
