/** The history that measurements and browser tests use: its events are valid, and it is as described. */
import { expect, test } from 'vitest';
import { catalogue } from '../../src/events/catalogue/catalogue.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { plausibleKeys, writePlausibleHistory } from '../support/plausible-history.ts';

const DAY_MS = 86_400_000;
const until = Date.parse('2026-11-20T12:00:00Z');

async function historyOf(exchanges: number) {
  const log = new MemoryLog();
  const written = await writePlausibleHistory(log, { exchanges, until });
  const events = [];
  for await (const event of log.readAll()) events.push(event);
  expect(events).toHaveLength(written);
  return events;
}

test('a plausible history consists of valid events, in a year of which the last month has most', async () => {
  const events = await historyOf(3000);
  for (const { type, data } of events) {
    expect(() => catalogue.get(type)?.data.parse(data), type).not.toThrow();
    expect(catalogue.has(type), type).toBe(true);
  }
  const received = events.filter(({ type }) => type === 'request.received').map(({ at }) => at);
  expect(received).toHaveLength(3000);
  expect(received).toEqual(received.toSorted((one, other) => one - other));
  const [first = 0] = received;
  expect(first).toBeGreaterThan(until - 365 * DAY_MS);
  expect(first).toBeLessThan(until - 350 * DAY_MS);
  expect(received.at(-1)).toBeLessThan(until);
  const recent = received.filter((at) => at >= until - 30 * DAY_MS).length;
  expect(recent).toBeGreaterThan(2000);
  expect(recent).toBeLessThan(2200);
  const types = new Set(events.map(({ type }) => type));
  for (const type of [
    ...['attempt.failed', 'cache.hit', 'client.disconnected', 'exchange.completed', 'exchange.failed'],
    ...['guardrail.applied', 'key.created', 'request.refused', 'response.stored', 'usage.recorded'],
  ]) {
    expect(types).toContain(type);
  }
});

test('it is the same for the same seed, but for the ids', async () => {
  const [one, other] = [await historyOf(400), await historyOf(400)];
  const facts = ({ type, at, context }: (typeof one)[number]) => ({ type, at, context });
  expect(one.map(facts)).toEqual(other.map(facts));
  expect(new Set(one.map(({ context }) => context.actor)).size).toBeGreaterThan(10);
  expect(new Set(plausibleKeys.map(({ id }) => id)).size).toBe(plausibleKeys.length);
});
