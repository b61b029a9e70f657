import assert from 'node:assert/strict';
import { test } from 'node:test';

import { AnnouncementThrottle, PAUSE_MS } from '../lib/panel/announcementThrottle.js';

const AWAY = 'This server does not answer.';
const IN_USE = 'This server is in use.';
const IDLE = 'Nothing works on this server.';

/** What stands in the region after each of these [second, text]. */
function heard(...texts) {
  const announcements = new AnnouncementThrottle();
  return texts.map(([second, text]) => announcements.next(text, second * 1000));
}

test('the first state is not announced, nor is becoming known', () => {
  assert.deepEqual(heard([0, IN_USE], [3, IN_USE]), ['', '']);
  assert.deepEqual(heard([0, ''], [3, IN_USE]), ['', '']);
});

test('a change is announced once, at once, and stays while it holds', () => {
  assert.deepEqual(heard([0, IN_USE], [3, AWAY], [4, AWAY], [300, AWAY]), ['', AWAY, AWAY, AWAY]);
});

test('an expired notice is removed at once, and the next one waits for the pause', () => {
  const pause = PAUSE_MS / 1000;
  assert.deepEqual(
    heard([0, IN_USE], [3, AWAY], [6, IDLE], [3 + pause - 1, IDLE], [3 + pause, IDLE]),
    ['', AWAY, '', '', IDLE]
  );
});

test('a notice that returns within the pause is not announced again', () => {
  assert.deepEqual(
    heard([0, IN_USE], [3, AWAY], [6, IN_USE], [9, AWAY], [99, AWAY], [100, IN_USE]),
    ['', AWAY, '', '', '', IN_USE]
  );
});

test('without notices there is no text and no announcement', () => {
  assert.deepEqual(heard([0, IN_USE], [3, AWAY], [5, ''], [99, ''], [100, AWAY]), [
    '',
    AWAY,
    '',
    '',
    ''
  ]);
});
