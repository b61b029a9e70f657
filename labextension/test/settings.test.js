import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Signal } from '@lumino/signaling';

import { SettingsModel } from '../lib/model/settingsModel.js';
import { DEFAULT_SETTINGS, readSettings } from '../lib/settings.js';
import { heatText } from '../lib/text/instanceText.js';
import { trans } from './trans.js';

const schema = JSON.parse(readFileSync(new URL('../schema/plugin.json', import.meta.url), 'utf8'));

test('the schema has the same settings and defaults', () => {
  const defaults = Object.entries(schema.properties).map(([name, each]) => [name, each.default]);
  assert.deepEqual(Object.fromEntries(defaults), DEFAULT_SETTINGS);
});

test("the user's settings apply", () => {
  const chosen = { ...DEFAULT_SETTINGS, notices: false, temperatureUnit: 'fahrenheit' };
  assert.deepEqual(readSettings(chosen), chosen);
});

test('a value that is not allowed counts as the default', () => {
  for (const bad of [null, 'yes', 7, [], {}, undefined]) {
    const names = Object.keys(DEFAULT_SETTINGS).map(name => [name, bad]);
    assert.deepEqual(readSettings(Object.fromEntries(names)), DEFAULT_SETTINGS);
  }
  assert.deepEqual(readSettings({ ofLater: true }), DEFAULT_SETTINGS);
});

test('a temperature is shown in the unit that was chosen', () => {
  const gpu = { temperature_c: 61, power_w: null, power_limit_w: null };
  assert.equal(heatText(gpu, trans), '61 °C');
  assert.equal(heatText(gpu, trans, 'fahrenheit'), '142 °F');
});

test('settings that JupyterLab refuses count as the defaults', async context => {
  const warned = context.mock.method(console, 'warn', () => {});
  const registry = { load: () => Promise.reject(new Error('validation failed')) };
  const settings = new SettingsModel({ registry, pluginId: 'ec2spawner-lab:plugin' });
  await new Promise(resolve => setImmediate(resolve));
  assert.equal(warned.mock.callCount(), 1);
  assert.deepEqual(settings.current, DEFAULT_SETTINGS);
});

test('settings count once they are loaded, and again when they change', async () => {
  const chosen = { ...DEFAULT_SETTINGS, statusBarCost: 'perhaps', notices: false };
  const loaded = { composite: chosen };
  loaded.changed = new Signal(loaded);
  const registry = { load: async () => loaded };
  const settings = new SettingsModel({ registry, pluginId: 'ec2spawner-lab:plugin' });
  await new Promise(resolve => setImmediate(resolve));
  assert.deepEqual(settings.current, { ...DEFAULT_SETTINGS, notices: false });
  loaded.composite = { ...chosen, notices: 7 };
  loaded.changed.emit();
  assert.deepEqual(settings.current, DEFAULT_SETTINGS);
});
