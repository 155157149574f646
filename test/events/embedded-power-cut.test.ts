import { describe, expect, it } from 'vitest';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { START, streamName } from '../../src/events/event.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { collect } from '../contract/event-log.ts';
import { countOf, seed } from '../support/seed.ts';
import { readAll, readThings, temporaryDirectory, thing, upTo } from './log-files.ts';
import { SimulatedDisk } from './simulated-disk.ts';

/** mulberry32: the same sequence for the same seed, so that a failing round can be played again. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** More for a soak: `POWER_CUT_ROUNDS=5000`. */
const base = seed;
const rounds = countOf(6, 501, 'POWER_CUT_ROUNDS');
const cutsPerRound = 5;

interface Life {
  readonly syncFailure: number;
  readonly writeFailure: number;
  readonly seal: boolean;
}

/**
 * Appends numbers until the power goes or the process is killed, over and over on the same disk; each time the log
 * must open again and hold, in the order of each stream, every event that had been acknowledged as durable or been read after an opening,
 * and none that had been refused.
 */
async function live(seed: number, { syncFailure, writeFailure, seal }: Life): Promise<void> {
  const random = randomOf(seed);
  let simulated = new SimulatedDisk(random);
  let next = 0;
  let kept = new Set<number>();
  let refused = new Set<number>();
  for (let cut = 0; cut < cutsPerRound; cut++) {
    simulated.syncFailure = 0;
    simulated.writeFailure = 0;
    const log = await EmbeddedLog.open(temporaryDirectory('memory'), {
      disk: simulated.disk,
      segmentBytes: 2_500,
      layOutBytes: Math.floor(random() * 3) * 600,
      seal,
      commit: { probeMs: 1 },
    });
    const found = await readThings(log);
    const present = new Set(found);
    expect([...kept].filter((n) => !present.has(n))).toEqual([]);
    expect(present.size).toBe(found.length);
    // each of the five streams keeps its order
    for (const stream of upTo(5)) {
      const own = found.filter((n) => n % 5 === stream);
      expect(own).toEqual(own.toSorted((a, b) => a - b));
    }
    expect(found.filter((n) => refused.has(n))).toEqual([]);
    refused = new Set();
    expect(log.recovery?.lostEvents ?? 0).toBe(0);
    await expectStreamsToAgree(log);
    simulated.syncFailure = syncFailure;
    simulated.writeFailure = writeFailure;
    next = Math.max(-1, ...found) + 1;
    kept = present;
    let alive = true;
    const turns = 1 + Math.floor(random() * 25);
    for (let turn = 0; turn < turns; turn++) {
      for (let writes = Math.floor(random() * 4); writes > 0; writes--) {
        const n = next++;
        const body = Buffer.alloc(Math.floor(random() * 1_500), n);
        const stream = streamName('thing', String(n % 5));
        log.append([{ stream, events: [thing(n, body)], expectedRevision: 'any' }]).then(
          () => {
            if (alive) kept.add(n);
          },
          (error: unknown) => {
            if (!(error instanceof LogUnavailable)) throw error;
            if (error.outcome === 'none') refused.add(n);
          },
        );
      }
      if (random() < 0.05) await expectStreamsToAgree(log);
      await new Promise((resolve) => setImmediate(resolve));
    }
    alive = false;
    const after = random() < 0.3 ? simulated.afterKill() : simulated.afterPowerCut();
    await log.close().catch(() => {});
    simulated = after;
  }
}

/** Reading each stream gives the events of the whole log, stream by stream. */
async function expectStreamsToAgree(log: EmbeddedLog): Promise<void> {
  const all = await readAll(log);
  const last = all.at(-1)?.position ?? START;
  for (const stream of new Set(all.map((event) => event.stream))) {
    const events = await collect(log.readStream(stream));
    const seen = events.filter(({ position }) => position <= last);
    expect(seen).toEqual(all.filter((event) => event.stream === stream));
    expect(seen.map(({ revision }) => Number(revision))).toEqual(upTo(seen.length));
  }
}

describe('a log whose machine loses power', () => {
  it('keeps acknowledged events, in order, and never treats its own torn end as damage', {
    timeout: 60_000 + rounds * 1_000,
  }, async () => {
    for (const seed of upTo(rounds)) {
      await live(base + seed, { syncFailure: 0, writeFailure: 0, seal: false }).catch((error: unknown) => {
        throw new Error(`seed ${base + seed}`, { cause: error });
      });
    }
  });

  it('does so while segments are being compressed', { timeout: 60_000 + rounds * 1_000 }, async () => {
    for (const seed of upTo(rounds / 3)) {
      await live(base + 1_000 + seed, { syncFailure: 0, writeFailure: 0, seal: true }).catch((error: unknown) => {
        throw new Error(`seed ${base + 1_000 + seed}`, { cause: error });
      });
    }
  });

  it('does so on a disk whose syncs fail now and then', { timeout: 60_000 + rounds * 1_000 }, async () => {
    for (const seed of upTo(rounds / 3)) {
      await live(base + 2_000 + seed, { syncFailure: 0.2, writeFailure: 0, seal: false }).catch((error: unknown) => {
        throw new Error(`seed ${base + 2_000 + seed}`, { cause: error });
      });
    }
  });

  it('does so on a disk that also refuses writes now and then', { timeout: 60_000 + rounds * 1_000 }, async () => {
    for (const seed of upTo(rounds / 3)) {
      await live(base + 3_000 + seed, { syncFailure: 0.1, writeFailure: 0.1, seal: true }).catch((error: unknown) => {
        throw new Error(`seed ${base + 3_000 + seed}`, { cause: error });
      });
    }
  });
});
