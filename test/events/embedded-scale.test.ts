import { describe, expect, it } from 'vitest';
import { streamName } from '../../src/events/event.ts';
import { collect } from '../contract/event-log.ts';
import { filesOf, openTestLog, temporaryDirectory, thing, until, upTo } from './log-files.ts';

describe('a log of some size', () => {
  const streams = 2_000;
  const perStream = 40;
  const events = streams * perStream;

  it('opens in the time of its last segment, reads in order, and finds every stream', { timeout: 60_000 }, async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, { segmentBytes: 8_000_000, disk: undefined });
    const body = Buffer.alloc(250);
    for (let round = 0; round < perStream; round++) {
      await Promise.all(
        upTo(streams).map((id) =>
          log.append([
            {
              stream: streamName('thing', String(id)),
              events: [thing(round, body)],
              expectedRevision: round === 0 ? 'noStream' : BigInt(round - 1),
            },
          ]),
        ),
      );
    }
    await until(() => filesOf(dir, '.seg').length === 1);
    expect(filesOf(dir, '.zst').length).toBeGreaterThan(2);
    await log.close();

    const began = performance.now();
    const reopened = await openTestLog(dir, { segmentBytes: 8_000_000, disk: undefined });
    expect(performance.now() - began).toBeLessThan(2_000);

    let position = 0;
    for await (const event of reopened.readAll()) {
      position++;
      if (Number(event.position) !== position) throw new Error(`${event.position} came where ${position} should`);
    }
    expect(position).toBe(events);
    for (const id of [0, 7, streams - 1]) {
      const numbers = (await collect(reopened.readStream(streamName('thing', String(id))))).map(({ data }) => data);
      expect(numbers).toEqual(upTo(perStream).map((n) => ({ n })));
    }
    const wanted = await collect(reopened.readAll({ filter: { streams: ['thing-1999'] } }));
    expect(wanted).toHaveLength(perStream);
  });
});
