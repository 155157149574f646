/** Gateways of which one has not read the same from the engine as the others. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import { LogDiverged, type LogEngine, type SequencedAppend } from '../../../src/events/replicated/engine.ts';
import { noted, write } from '../../contract/event-log.ts';
import { hasPosition, linesOf, whenState } from '../../contract/recovery.ts';
import { MemoryEngineStore } from '../../support/memory-engine.ts';
import { Replica } from '../../support/replicas.ts';

const timing = { conflictMs: 400 };

/** An engine that hides appends from its reader, as a fault of the gateway would. */
function hiding(engine: LogEngine, isHidden: (append: SequencedAppend) => boolean): LogEngine {
  return {
    name: engine.name,
    maxAppendBytes: engine.maxAppendBytes,
    open: (hasEvents) => engine.open(hasEvents),
    append: (appends) => engine.append(appends),
    verify: (place) => engine.verify(place),
    close: () => engine.close(),
    async *read(after, signal) {
      for await (const { appends, resume } of engine.read(after, signal)) {
        yield { appends: appends.filter((append) => !isHidden(append)), resume };
      }
    },
  };
}

describe('a gateway that lacks an event of the engine', () => {
  let store: MemoryEngineStore;
  let healthy: Replica;
  let wrong: Replica;
  let hides: boolean;

  const thing = (name: string) => streamName('thing', name);
  const append = ({ log }: Replica, name: string, n = 0) => log.append([write(thing(name), 'any', noted({ n }))]);
  const touches = (name: string) => (one: SequencedAppend) => one.writes.some(({ stream }) => stream === thing(name));

  beforeEach(async () => {
    store = new MemoryEngineStore();
    healthy = await Replica.open(() => store.connect(), { timing });
    hides = true;
    const isHidden = (one: SequencedAppend) => hides && touches('hidden')(one);
    wrong = await Replica.open(() => hiding(store.connect(), isHidden), { timing });
    const { position } = await append(healthy, 'first');
    await hasPosition(wrong.log, position);
    await append(healthy, 'hidden');
  });
  afterEach(() => Promise.all([healthy.dispose(), wrong.dispose()]));

  const refusal = { code: 'log_unavailable' };

  /** Resolves when the replica has stopped; its restart is refused until its folder is moved away. */
  async function hasStopped(replica: Replica): Promise<void> {
    await expect.poll(() => replica.log.status().reason).toMatch(/does not match .* no gateway has agreed/);
    await expect(append(replica, 'late')).rejects.toMatchObject(refusal);
    for (let n = 0; n < 3; n++) await expect(replica.reopen()).rejects.toThrow(LogDiverged);
    hides = false;
    await replica.reopen({ without: 'its folder' });
  }

  it('stops when no other gateway agrees with it; two that agree go on', async () => {
    const third = await Replica.open(() => store.connect(), { timing });
    await append(healthy, 'second').catch(() => {});
    await whenState(wrong.log, 'unavailable');
    await expect(append(wrong, 'second')).rejects.toMatchObject(refusal);
    for (const one of [healthy, third]) {
      await whenState(one.log, 'ok');
      await append(one, 'third');
    }
    await hasStopped(wrong);
    for (const one of [healthy, third]) expect(one.log.status().state).toBe('ok');
    await append(wrong, 'fourth');
    const { position } = await append(healthy, 'fifth');
    for (const one of [wrong, third]) {
      await hasPosition(one.log, position);
      expect(await linesOf(one.log)).toEqual(await linesOf(healthy.log));
    }
    await third.dispose();
  });

  it('stops when the only other one has read more, which goes on', async () => {
    await append(healthy, 'second').catch(() => {});
    await hasStopped(wrong);
    const { position } = await append(healthy, 'third');
    await hasPosition(wrong.log, position);
    expect(await linesOf(wrong.log)).toEqual(await linesOf(healthy.log));
  });

  it('and the only other one stop both when each has events that the other has elsewhere', async () => {
    await append(wrong, 'second');
    await append(wrong, 'third');
    await append(healthy, 'fourth').catch(() => {});
    await Promise.all([hasStopped(wrong), hasStopped(healthy)]);
    const { position } = await append(healthy, 'fifth');
    await hasPosition(wrong.log, position);
    expect(await linesOf(wrong.log)).toEqual(await linesOf(healthy.log));
  });

  it('answers nothing from the moment it reads of the difference', async () => {
    await append(healthy, 'second').catch(() => {});
    const before = wrong.log.status().head;
    const outcomes = await Promise.allSettled(Array.from({ length: 50 }, (_, n) => append(wrong, 'own', n)));
    await expect.poll(() => wrong.log.status().reason).toMatch('no gateway has agreed');
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toEqual([]);
    expect(before).toBe('0000000000000001');
  });
});
