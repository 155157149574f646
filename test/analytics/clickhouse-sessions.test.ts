import { expect, test } from 'vitest';
import { ClickHouseSessions } from '../../src/http/clickhouse/clickhouse-request.ts';

test('a session ends after its timeout, which each query restarts', () => {
  let now = 0;
  const sessions = new ClickHouseSessions(() => now);
  const enter = (id: string, mustExist: boolean, timeoutSeconds?: string) =>
    sessions.enter({ user: 'analyst', id, mustExist, timeoutSeconds });
  enter('long', false, '3600')();
  enter('short', false, '10')();
  now += 9_000;
  enter('short', true, '10')();
  now += 9_000;
  enter('short', true)();
  now += 61_000;
  expect(() => enter('short', true)).toThrow(/SESSION_NOT_FOUND/);
  enter('long', true)();
});

test('the sessions of two users are separate', () => {
  const sessions = new ClickHouseSessions();
  sessions.enter({ user: 'one', id: 'same', mustExist: false, timeoutSeconds: undefined });
  sessions.enter({ user: 'other', id: 'same', mustExist: false, timeoutSeconds: undefined });
  const again = () => sessions.enter({ user: 'one', id: 'same', mustExist: false, timeoutSeconds: undefined });
  expect(again).toThrow(/SESSION_IS_LOCKED/);
});

test('the number of sessions in memory is bounded', () => {
  const sessions = new ClickHouseSessions();
  const enter = (id: string, mustExist: boolean) =>
    sessions.enter({ user: 'analyst', id, mustExist, timeoutSeconds: '3600' });
  for (let n = 0; n <= 10_000; n += 1) enter(`session ${n}`, false)();
  expect(() => enter('session 0', true)).toThrow(/SESSION_NOT_FOUND/);
  enter('session 1', true)();
});
