import { describe, expect, it } from 'vitest';
import { OpenExchangeTracker } from '../../../src/commands/exchange/background/open-exchange-tracker.ts';
import { gatewayStopped } from '../../../src/events/catalogue/gateway.ts';
import { type Position, streamName } from '../../../src/events/event.ts';
import { LogUnavailable } from '../../../src/events/log.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';

const stream = streamName('exchange', '1');

/** Closing fails so many times, then succeeds. */
function records(failures: number, log = new MemoryLog()) {
  const closed = Promise.withResolvers<void>();
  const errors: unknown[] = [];
  let calls = 0;
  const open = new OpenExchangeTracker({
    log,
    async close() {
      calls += 1;
      if (calls <= failures) throw new LogUnavailable('too slow', 'none');
      closed.resolve();
      return [];
    },
    resume() {},
    onError: (error) => errors.push(error),
    retryMs: 1,
  });
  return { open, closed: closed.promise, errors, calls: () => calls };
}

describe('an exchange whose end could not be recorded', () => {
  it('is closed although the log reported no fault, and tried again until it is', async () => {
    const { open, closed, errors } = records(3);
    open.begun(stream);
    open.leftOpen(stream);
    open.over(stream);
    await closed;
    expect(errors).toHaveLength(3);
  });

  it('is left to the next start once the gateway stops', async () => {
    const { open, calls } = records(10);
    open.begun(stream);
    open.leftOpen(stream);
    await open.stop();
    open.leftOpen(stream);
    expect(calls()).toBe(1);
  });
});

it('a fold of the open exchanges begins before the first of them, also when that was taken up late', async () => {
  const log = new MemoryLog();
  const event = gatewayStopped.create({ reason: 'test', cutExchanges: 0 }, { actor: 'system' });
  await log.append([{ stream, events: Array.from({ length: 12 }, () => event), expectedRevision: 'any' }]);
  const { open } = records(0, log);
  for (const [id, after] of [
    ['new', '0000000000000007'],
    ['old', '0000000000000003'],
    ['newest', '0000000000000009'],
  ]) {
    open.begun(streamName('exchange', String(id)), after as Position);
  }
  expect(open.allAfter()).toBe('0000000000000003');
  open.over(streamName('exchange', 'old'));
  expect(open.allAfter()).toBe('0000000000000007');
});
