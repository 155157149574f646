/** Two processes with one writer id, as after a virtual machine was copied while it ran. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PreparedAppend } from '../../../src/events/embedded/append-batch.ts';
import { streamName } from '../../../src/events/event.ts';
import { frameAppend } from '../../../src/events/replicated/append-frame.ts';
import { collect, noted, write } from '../../contract/event-log.ts';
import { hasPosition, linesOf } from '../../contract/recovery.ts';
import { MemoryEngineStore, turns } from '../../support/memory-engine.ts';
import { Replica } from '../../support/replicas.ts';

const a = streamName('thing', 'a');

describe('a number of the writer that another process has used', () => {
  let store: MemoryEngineStore;
  let replica: Replica;
  let warnings: string[];

  beforeEach(async () => {
    store = new MemoryEngineStore();
    warnings = [];
    const warn = (message: string) => warnings.push(message);
    replica = await Replica.open(() => store.connect(), { warn, timing: { outcomeTimeoutMs: 2_000 } });
    await replica.log.append([write(a, 'any', noted({ n: 0 }))]);
  });
  afterEach(() => replica.dispose());

  /** What the copy appends, whose number is so much higher than the one that was used last. */
  const appendAsCopy = (ahead: number): void => {
    const last = store.appends.at(-1);
    if (last === undefined) throw new Error('nothing was appended yet');
    const writes = [write(a, 'any', noted({ n: 'copy' }))];
    store.record(frameAppend({ ...last, number: last.number + ahead, ...new PreparedAppend(writes, 1_000_000) }));
  };
  const numbers = async (): Promise<unknown[]> =>
    (await collect(replica.log.readAll())).map(({ data }) => (data as { n: unknown }).n);
  const sameAsOther = async (): Promise<void> => {
    const other = await Replica.open(() => store.connect());
    await hasPosition(other.log, await replica.log.head());
    expect(await linesOf(replica.log)).toEqual(await linesOf(other.log));
    await other.dispose();
  };

  it.each([[1], [2], [3], [50]])(
    'makes it take a new id and send its appends again, each recorded once (%i ahead)',
    async (ahead) => {
      const writer = store.appends.at(-1)?.writer;
      store.holdAppends();
      const appended = [1, 2, 3].map((n) => replica.log.append([write(a, 'any', noted({ n }))]));
      await turns(5);
      appendAsCopy(ahead);
      store.releaseAppends();
      const results = await Promise.all(appended);
      expect((await numbers()).toSorted()).toEqual([0, 1, 2, 3, 'copy']);
      const recorded = await collect(replica.log.readStream(a));
      for (const [index, { position }] of results.entries()) {
        expect(recorded.find((event) => event.position === position)).toMatchObject({ data: { n: index + 1 } });
      }
      expect(warnings).toEqual([expect.stringContaining('writer id')]);
      await replica.log.append([write(a, 'any', noted({ n: 4 }))]);
      expect(store.appends.at(-1)?.writer).not.toBe(writer);
      await sameAsOther();
    },
  );

  it('is recognised before this process appends again', async () => {
    appendAsCopy(5);
    await hasPosition(replica.log, '0000000000000002');
    await expect.poll(() => warnings).toHaveLength(1);
    await replica.log.append([write(a, 'any', noted({ n: 1 }))]);
    expect(await numbers()).toEqual([0, 'copy', 1]);
    await sameAsOther();
  });

  it('is not seen in its own appends that arrive late or repeatedly', async () => {
    const engine = store.connect();
    const late = await Replica.open(() => engine, {
      warn: (message) => warnings.push(message),
      timing: { retryMs: 1 },
    });
    engine.nextAppends.push({ kind: 'late', after: 3 }, { kind: 'twice' }, { kind: 'unanswered' });
    await Promise.all([1, 2, 3].map((n) => late.log.append([write(a, 'any', noted({ n }))])));
    store.landLate();
    for (const n of [4, 5]) await late.log.append([write(a, 'any', noted({ n }))]).catch(() => {});
    expect(warnings.filter((message) => message.includes('writer id'))).toEqual([]);
    await late.dispose();
  });
});
