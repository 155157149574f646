/** What a replica does while it reads much that others have appended. */
import { expect, it } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import { noted, write } from '../../contract/event-log.ts';
import { linesOf } from '../../contract/recovery.ts';
import { MemoryEngineStore, turns } from '../../support/memory-engine.ts';
import { Replica } from '../../support/replicas.ts';

const stream = streamName('thing', 'a');

it.each([
  ['small appends', 5_000, 10, 512],
  ['large appends', 60, 200_000, 6],
])('gives the event loop a turn again and again while it places %s', async (_, count, bodyBytes, mostInOneTurn) => {
  const store = new MemoryEngineStore({ batchSize: () => count });
  const [writer, reader] = await Promise.all([
    Replica.open(() => store.connect()),
    Replica.open(() => store.connect()),
  ]);
  store.holdReads();
  const appended = Array.from({ length: count }, (__, n) =>
    writer.log.append([write(stream, 'any', noted({ n }, { body: Buffer.alloc(bodyBytes, n) }))]),
  );
  await expect.poll(() => store.appends.length).toBeGreaterThanOrEqual(count);
  store.releaseReads();
  const heads: number[] = [];
  const head = () => Number(reader.log.status().head);
  for (heads.push(head()); head() < count; heads.push(head())) await turns(1);
  const steps = heads.map((position, turn) => position - (heads[turn - 1] ?? 0));
  expect(Math.max(...steps)).toBeGreaterThan(1);
  expect(Math.max(...steps)).toBeLessThanOrEqual(mostInOneTurn);
  await Promise.all(appended);
  expect(await linesOf(reader.log)).toEqual(await linesOf(writer.log));
  await Promise.all([writer.dispose(), reader.dispose()]);
});
