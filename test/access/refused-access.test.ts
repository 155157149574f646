import { describe, expect, it } from 'vitest';
import { RefusedAccess } from '../../src/commands/access/refused-access.ts';
import { streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';

function watched(log: EventLog = new MemoryLog()) {
  let now = 1_000_000;
  const errors: unknown[] = [];
  const refused = new RefusedAccess({ log, now: () => now, onError: (error) => errors.push(error) });
  return {
    refused,
    errors,
    later(milliseconds: number) {
      now += milliseconds;
      refused.writeDue();
    },
    async recordedEvents() {
      await refused.stop();
      const events = await Array.fromAsync(log.readAll());
      return events.map(({ type, stream, data }) => {
        expect(type).toBe('access.refused');
        expect(stream).toBe(streamName('access', 'refused'));
        return data;
      });
    },
  };
}

describe('refused keys', () => {
  it('are recorded at once, and from then on once a minute with their number', async () => {
    const { refused, later, recordedEvents } = watched();
    refused.note('unknown');
    for (let n = 0; n < 500; n++) refused.note('unknown');
    later(59_999);
    for (let n = 0; n < 500; n++) refused.note('unknown');
    later(1);
    later(30_000);
    expect(await recordedEvents()).toEqual([
      { reason: 'unknown', count: 1, since: 1_000_000 },
      { reason: 'unknown', count: 1000, since: 1_000_000 },
    ]);
  });

  it('are counted apart by reason and key', async () => {
    const { refused, recordedEvents } = watched();
    refused.note('expired', 'a');
    refused.note('inactive', 'b');
    refused.note('expired', 'c');
    expect(await recordedEvents()).toMatchObject([
      { reason: 'expired', keyId: 'a' },
      { reason: 'inactive', keyId: 'b' },
      { reason: 'expired', keyId: 'c' },
    ]);
  });

  it('are recorded at once again after a minute without one', async () => {
    const { refused, later, recordedEvents } = watched();
    refused.note('unknown');
    later(61_000);
    refused.note('unknown');
    expect(await recordedEvents()).toEqual([
      { reason: 'unknown', count: 1, since: 1_000_000 },
      { reason: 'unknown', count: 1, since: 1_061_000 },
    ]);
  });

  it('are recorded when the gateway stops, also those of the last minute', async () => {
    const { refused, recordedEvents } = watched();
    refused.note('unknown');
    refused.note('unknown');
    expect(await recordedEvents()).toMatchObject([{ count: 1 }, { count: 1 }]);
  });

  it('are counted together when there are too many', async () => {
    const { refused, recordedEvents } = watched();
    for (let n = 0; n < 5000; n++) refused.note('expired', `key-${n}`);
    const events = await recordedEvents();
    expect(events.length).toBeLessThanOrEqual(1003);
    const counts = events.map((data) => (data as { count: number }).count);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(5000);
  });

  it('are reported as an error when the log is closed', async () => {
    const log = new MemoryLog();
    await log.close();
    const { refused, errors } = watched(log);
    refused.note('unknown');
    await refused.stop();
    expect(errors).toHaveLength(1);
  });
});
