import { rm } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PreparedAppend } from '../../../src/events/embedded/append-batch.ts';
import { EmbeddedLog } from '../../../src/events/embedded/embedded-log.ts';
import { streamName } from '../../../src/events/event.ts';
import type { StreamWrite } from '../../../src/events/log.ts';
import { AppendApplier, type DecidedAppend, type ReplicaFiles } from '../../../src/events/replicated/append-applier.ts';
import { NEW_LOG, type SequencedAppend } from '../../../src/events/replicated/engine.ts';
import { collect, noted, write } from '../../contract/event-log.ts';
import { temporaryFolder } from '../../support/replicas.ts';

const thing = (n: number) => streamName('thing', `t${n}`);
const never = new AbortController().signal;
const beginning = { log: undefined, position: 0, numbers: undefined };

let dir: string;
let replica: EmbeddedLog;
let sent: number;

beforeEach(async () => {
  dir = await temporaryFolder();
  const options = { durability: 'relaxed', replica: true, segmentBytes: 32 * 1024, seal: false } as const;
  replica = await EmbeddedLog.open(dir, options);
  sent = 0;
});
afterEach(async () => {
  await replica.close();
  await rm(dir, { recursive: true, maxRetries: 3 });
});

function sequenced(...writes: StreamWrite[]): SequencedAppend {
  const { writes: prepared, records } = new PreparedAppend(writes, 1024 * 1024);
  const from = { log: NEW_LOG, writer: 'aaaaaaaaaaaaaaaa', seen: { position: 0, check: 0 } };
  return { ...from, number: ++sent, writes: prepared, records };
}

/** The numbers of the appends that were decided, up to the end or the error. */
async function decide(applier: AppendApplier, appends: readonly SequencedAppend[]) {
  const decided: DecidedAppend[] = [];
  try {
    for await (const decisions of applier.apply(appends, never)) decided.push(...decisions);
  } catch (error) {
    return { decided, error };
  }
  return { decided, error: undefined };
}

const numbersOf = (decided: readonly DecidedAppend[]) => decided.map(({ append }) => append.number);
const recorded = async () => (await collect(replica.readAll())).map(({ data }) => (data as { n: number }).n);

describe('appends with streams whose revisions have to be looked up', () => {
  /** Resolves when none of the streams is in memory. */
  async function fillClosedSegments(applier: AppendApplier, streams: number): Promise<void> {
    const all = Array.from({ length: streams }, (_, n) => sequenced(write(thing(n), 'any', noted({ n }))));
    expect((await decide(applier, all)).decided).toHaveLength(streams);
    const padding = { n: -1, text: 'x'.repeat(40 * 1024) };
    await decide(applier, [sequenced(write(thing(-1), 'any', noted(padding)))]);
    await decide(applier, [sequenced(write(thing(-2), 'any', noted({ n: -2 })))]);
    await expect.poll(() => replica.status().durableHead).toBe(replica.status().head);
    await replica.settled();
  }

  it('are decided, when the look-up of one displaces the known revision of another', async () => {
    const applier = await AppendApplier.open(replica, beginning);
    await fillClosedSegments(applier, 1_200);
    // refused ones look streams up and record nothing: as many as are kept, the first among them
    const refused = Array.from({ length: 1_000 }, (_, n) => sequenced(write(thing(n), 'noStream', noted({ n }))));
    const { decided } = await decide(applier, refused);
    expect(decided.filter(({ result }) => result instanceof Error)).toHaveLength(1_000);
    const both = [thing(0), thing(1_100)].map((stream) => sequenced(write(stream, 0n, noted({ n: 7_000 }))));
    const { decided: last, error } = await decide(applier, both);
    expect(error).toBeUndefined();
    expect(last.map(({ result }) => result)).toMatchObject([{ revisions: [1n] }, { revisions: [1n] }]);
  });
});

describe('an append whose placing fails', () => {
  /** The replica, whose writer fails when it places an append in these calls. */
  function failing(calls: readonly number[], how: () => undefined): ReplicaFiles {
    let call = 0;
    return {
      readAll: (options) => replica.readAll(options),
      visible: () => replica.visible(),
      inOrder: () => {
        const writer = replica.inOrder();
        return {
          prepare: (writes, signal) => writer.prepare(writes, signal),
          place: (append) => (calls.includes(++call) ? how() : writer.place(append)),
          write: () => writer.write(),
        };
      },
    };
  }
  const fail = () => {
    throw new Error('a fault');
  };
  const four = () => [0, 1, 2, 3].map((n) => sequenced(write(thing(n % 2), 'any', noted({ n }))));

  it.each([
    [1, [1]],
    [2, [2, 3]],
    [4, [4, 5]],
  ])('is decided when the appends are read again: call %i', async (call, failures) => {
    const appends = four();
    const applier = await AppendApplier.open(failing(failures, fail), beginning);
    const first = await decide(applier, appends);
    expect(first).toMatchObject({ error: { message: 'a fault' } });
    expect(numbersOf(first.decided)).toEqual([1, 2, 3].slice(0, call - 1));
    const again = await decide(applier, appends);
    expect(again.error).toBeUndefined();
    expect(numbersOf(again.decided)).toEqual([1, 2, 3, 4].slice(call - 1));
    expect(await recorded()).toEqual([0, 1, 2, 3]);
    expect(applier.position).toBe(4);
  });

  it('is decided in the same call when it fails once', async () => {
    const applier = await AppendApplier.open(failing([3], fail), beginning);
    const { decided, error } = await decide(applier, four());
    expect({ numbers: numbersOf(decided), error }).toEqual({ numbers: [1, 2, 3, 4], error: undefined });
    expect(await recorded()).toEqual([0, 1, 2, 3]);
  });

  it('is decided in the same call when a stream has to be looked up', async () => {
    const applier = await AppendApplier.open(
      failing([1, 3, 5], () => undefined),
      beginning,
    );
    const { decided, error } = await decide(applier, four());
    expect({ numbers: numbersOf(decided), error }).toEqual({ numbers: [1, 2, 3, 4], error: undefined });
    expect(await recorded()).toEqual([0, 1, 2, 3]);
  });

  it('is not passed by later ones of the same writer', async () => {
    const appends = four();
    const applier = await AppendApplier.open(failing([2, 3, 4, 5, 6], fail), beginning);
    for (let reading = 0; reading < 4; reading++) {
      expect(await decide(applier, appends)).toMatchObject({ error: { message: 'a fault' } });
    }
    expect(await recorded()).toEqual([0]);
    expect((await decide(applier, appends)).error).toBeUndefined();
    expect(await recorded()).toEqual([0, 1, 2, 3]);
  });
});
