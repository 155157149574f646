/** Exchanges that run at the same time, in the order in which they began. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { exchangesIn, logRange } from '../../src/commands/guardrails/replay/recorded-requests.ts';
import { chunkReceived, exchangeCompleted, requestReceived } from '../../src/events/catalogue/exchange.ts';
import { idOf, streamName } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';

const context = { actor: 'master' } as const;
const received = () =>
  requestReceived.create(
    {
      ...{ dialect: 'chat', method: 'POST', path: '/v1/chat/completions', headers: {}, stream: true },
      ...{ authMethod: 'master_key', capture: 'full' },
    },
    context,
  );
const chunk = (index: number) => chunkReceived.create({ attempt: 1, index }, context, Buffer.from('12345678'));
const completed = () =>
  exchangeCompleted.create(
    { status: 200, attempt: 1, provider: 'p', finishReason: 'stop', chunks: 2, bytes: 1, durationMs: 1 },
    context,
  );

/** Appends the next event of each exchange named; every exchange has five events, of which the last is missing for some. */
async function interleaved(order: readonly number[], unfinished: ReadonlySet<number>) {
  const log = new MemoryLog();
  const events = new Map<number, number>();
  const began: number[] = [];
  for (const exchange of order) {
    const place = events.get(exchange) ?? 0;
    if (place === 0) began.push(exchange);
    if (place > 4 || (place === 4 && unfinished.has(exchange))) continue;
    events.set(exchange, place + 1);
    const event = place === 0 ? received() : place === 4 ? completed() : chunk(place - 1);
    const expectedRevision = place === 0 ? 'noStream' : 'exists';
    await log.append([{ stream: streamName('exchange', String(exchange)), events: [event], expectedRevision }]);
  }
  return { log, began, events };
}

it('are complete and in order, however their events are interleaved and however few bytes are kept', async () => {
  const exchanges = fc.integer({ min: 0, max: 7 });
  const order = fc.array(exchanges, { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(
      order,
      fc.uniqueArray(exchanges),
      fc.integer({ min: 0, max: 9000 }),
      async (order, open, bytes) => {
        const { log, began, events } = await interleaved(order, new Set(open));
        const range = { from: 0, until: Date.now() + 1000 };
        const reading = {
          log,
          signal: new AbortController().signal,
          letOthersWork: async () => {},
          mostKeptBytes: bytes,
        };
        const found: [number, number][] = [];
        for await (const { recorded, events: read } of exchangesIn(range, await logRange(range, log), reading)) {
          found.push([Number(idOf(recorded.received.stream)), read.length]);
        }
        expect(found).toEqual(began.map((exchange) => [exchange, events.get(exchange)]));
      },
    ),
  );
});
