/** The checks of promises can fail. */
import { describe, expect, it } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { type BackgroundOutcome, checkNotMadeTwice, checkPromises } from './check-background-and-repeated.ts';
import { RecordedLog } from './recorded-log.ts';

const completed = { id: 'r', status: 'completed', output: ['x'] };
const kept = (facts: Partial<BackgroundOutcome>) =>
  checkPromises([{ id: 'r', status: 200, response: completed, ...facts }], []);

describe('a background response', () => {
  it('that ended, and did not change later, is right', () => {
    expect(kept({})).toEqual([]);
    expect(kept({ earlier: completed })).toEqual([]);
    const cancelled = { id: 'r', status: 'cancelled' };
    expect(kept({ response: cancelled, cancelled })).toEqual([]);
    // It was too late to cancel it.
    expect(kept({ cancelled: completed })).toEqual([]);
  });

  it.each<[string, Partial<BackgroundOutcome>]>([
    ['is gone', { status: 404, response: undefined }],
    ['comes to no end', { response: { ...completed, status: 'in_progress' } }],
    ['is another than it was', { earlier: { ...completed, output: [] } }],
    ['goes on after it was cancelled', { cancelled: { id: 'r', status: 'cancelled' } }],
    ['was said to be cancelled and was not', { cancelled: { id: 'r', status: 'in_progress' } }],
  ])('that %s is reported', (_what, facts) => {
    expect(kept(facts)).toMatchObject([{ check: 'promises' }]);
  });

  it.each([
    [['attempt.started', 'chunk.received', 'exchange.failed'], 0],
    [['attempt.started', 'attempt.started', 'chunk.received', 'exchange.completed'], 0],
    [['attempt.started', 'chunk.received', 'attempt.started', 'chunk.received', 'exchange.completed'], 1],
  ])('made as %j is reported %i times', (types, times) => {
    const log = new RecordedLog();
    const body = Buffer.from('{"background":true}');
    const all = ['request.received', ...types].map((type, index) => ({
      type,
      stream: 'exchange-e',
      data: { dialect: 'responses' },
      body,
      revision: BigInt(index),
      position: String(index + 1),
      id: String(index),
      context: { actor: 'master' },
    }));
    for (const event of all) log.add(event as unknown as RecordedEvent);
    expect(checkNotMadeTwice(log)).toHaveLength(times);
  });
});

describe('a key', () => {
  const given = (...answers: string[]) => [{ key: 'k', answers: answers.map((one) => Buffer.from(one)) }];

  it('that gave one answer is right, and one that gave two is reported', () => {
    expect(checkPromises([], given())).toEqual([]);
    expect(checkPromises([], given('a', 'a', 'a'))).toEqual([]);
    expect(checkPromises([], given('a', 'a', 'b'))).toMatchObject([{ check: 'keys' }]);
  });
});
