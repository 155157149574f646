/** Openings of a replica that end before they have everything. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import { EngineUnavailable, EngineUnsuitable } from '../../../src/events/replicated/engine.ts';
import { ReplicatedLog } from '../../../src/events/replicated/replicated-log.ts';
import { noted, write } from '../../contract/event-log.ts';
import { linesOf } from '../../contract/recovery.ts';
import { MemoryEngineStore } from '../../support/memory-engine.ts';
import { Replica, temporaryFolder } from '../../support/replicas.ts';

const reason = new Error('it is to stop');

describe('an opening whose signal is aborted', () => {
  it('rejects with the reason while the engine cannot be reached, and frees the folder', async () => {
    const dir = await temporaryFolder();
    const store = new MemoryEngineStore();
    const stop = new AbortController();
    const engine = store.connect();
    engine.open = async () => {
      throw new EngineUnavailable('no answer', 'none');
    };
    const warned = Promise.withResolvers<string>();
    const opening = ReplicatedLog.open({ engine, dir, warn: warned.resolve, signal: stop.signal });
    opening.catch(() => {});
    expect(await warned.promise).toContain('the log is not open yet: memory: no answer');
    stop.abort(reason);
    await expect(opening).rejects.toBe(reason);
    const again = await Replica.open(() => store.connect(), { dir });
    await again.dispose();
  });

  it('rejects with the reason while it catches up; the next opening has the whole log', async () => {
    const store = new MemoryEngineStore();
    const other = await Replica.open(() => store.connect());
    onTestFinished(() => other.dispose());
    const a = streamName('thing', 'a');
    for (let n = 0; n < 50; n++) await other.log.append([write(a, 'any', noted({ n }))]);
    const dir = await temporaryFolder();
    const stop = new AbortController();
    const onProgress = () => stop.abort(reason);
    const opening = ReplicatedLog.open({ engine: store.connect(), dir, onProgress, signal: stop.signal });
    await expect(opening).rejects.toBe(reason);
    const again = await Replica.open(() => store.connect(), { dir });
    onTestFinished(() => again.dispose());
    expect(await linesOf(again.log)).toEqual(await linesOf(other.log));
  });
});

describe('an engine that refuses for good', () => {
  const refusal = new EngineUnsuitable('no right to do that');
  const refuse = async () => {
    throw refusal;
  };

  it.each(['appends', 'reads'] as const)('ends an opening when it refuses %s, and frees the folder', async (what) => {
    const dir = await temporaryFolder();
    const store = new MemoryEngineStore();
    const engine = store.connect();
    if (what === 'appends') engine.append = refuse;
    else {
      // biome-ignore lint/correctness/useYield: it fails before the first batch
      engine.read = async function* () {
        throw refusal;
      };
    }
    await expect(ReplicatedLog.open({ engine, dir, timing: { retryMs: 5 } })).rejects.toBe(refusal);
    const again = await Replica.open(() => store.connect(), { dir });
    await again.dispose();
  });

  it('makes an open log unavailable until it accepts appends again', async () => {
    const store = new MemoryEngineStore();
    const engine = store.connect();
    const accept = engine.append.bind(engine);
    const replica = await Replica.open(() => engine, { timing: { retryMs: 5, outcomeTimeoutMs: 300 } });
    onTestFinished(() => replica.dispose());
    const a = streamName('thing', 'a');
    engine.append = refuse;
    await expect(replica.log.append([write(a, 'any', noted({ n: 1 }))])).rejects.toMatchObject({
      outcome: 'unknown',
    });
    expect(replica.log.status()).toMatchObject({ state: 'unavailable', engine: { connected: false } });
    engine.append = accept;
    await expect.poll(() => replica.log.status().state).toBe('ok');
    await replica.log.append([write(a, 'any', noted({ n: 2 }))]);
  });
});
