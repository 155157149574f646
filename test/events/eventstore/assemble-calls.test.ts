import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  beginning,
  CallAssembly,
  type EventPlace,
  formatPlace,
  layOut,
  maxGapBytes,
  metadataOf,
  parsePlace,
  type ResumePlace,
  resumeAfter,
} from '../../../src/events/eventstore/event-layout.ts';
import { EngineDamaged, type SequencedAppend } from '../../../src/events/replicated/engine.ts';
import { countOf } from '../../support/seed.ts';
import { append, barrier, numbersOf, writerA } from './appends.ts';

interface LogEvent {
  readonly place: EventPlace;
  readonly metadata: ReturnType<typeof metadataOf>;
  readonly data: Uint8Array;
}

type Unplaced = Omit<LogEvent, 'place'>;

function eventsOf(appends: readonly SequencedAppend[], call: string): Unplaced[] {
  return layOut(appends, 'log', call).flatMap(({ events }) => {
    return events.map(({ metadata, data }) => ({
      metadata: metadataOf(JSON.parse(Buffer.from(metadata).toString())),
      data,
    }));
  });
}

/** @param gaps bytes of other events before each event */
function place(events: readonly Unplaced[], gaps: readonly number[] = []): LogEvent[] {
  let commit = 0n;
  return events.map((event, index) => {
    commit += 1n + BigInt(gaps[index] ?? 0);
    return { ...event, place: { commit, prepare: commit, check: '0000abcd' } };
  });
}

interface Read {
  readonly appends: SequencedAppend[];
  readonly resumes: ResumePlace[];
}

function read(events: readonly LogEvent[], from = resumeAfter(beginning)): Read {
  const assembly = new CallAssembly(parsePlace(formatPlace(from)) ?? from);
  const appends: SequencedAppend[] = [];
  const resumes: ResumePlace[] = [];
  for (const { place: at, metadata, data } of events) {
    if (at.commit <= from.after.commit) continue;
    appends.push(...assembly.add(at, metadata, data));
    resumes.push(assembly.resume);
  }
  return { appends, resumes };
}

const large = append({ number: 2, bodies: [700 * 1024, 10] });
const group = [append({ number: 1, bodies: [0, 0] }), large, barrier(3), append({ number: 4 })];

describe('CallAssembly', () => {
  it('returns the appends of a call in their order when its events arrive in any order', () => {
    const events = eventsOf(group, 'x-1');
    fc.assert(
      fc.property(fc.shuffledSubarray([...events.keys()], { minLength: events.length }), (order) => {
        const shuffled = order.flatMap((index) => events[index] ?? []);
        expect(read(place(shuffled)).appends).toEqual(group);
      }),
      { numRuns: countOf(5, 20) },
    );
  });

  it('returns only what precedes a missing event', () => {
    const events = eventsOf(group, 'x-1');
    fc.assert(
      fc.property(fc.nat(events.length - 1), (missing) => {
        const { appends } = read(place(events.toSpliced(missing, 1)));
        expect(appends).toEqual(group.slice(0, appends.length));
        expect(appends.length).toBeLessThan(group.length);
      }),
      { numRuns: countOf(5, 20) },
    );
  });

  it('comes to the same state from every place at which reading may go on', () => {
    const small = (from: number) => [from, from + 1, from + 2].map((number) => append({ number, bodies: [0, 0] }));
    const divided = append({ number: 7, bodies: [200 * 1024] });
    // Of two senders; the second call of the first repeats its first one.
    const calls = [
      eventsOf(small(1), 'x-1'),
      eventsOf(small(1), 'x-2'),
      eventsOf([...small(4), divided], 'y-1'),
      eventsOf(small(8), 'x-3'),
    ];
    const all = calls.flat();
    const gap = fc.oneof(fc.nat(5), fc.constant(Number(maxGapBytes)), fc.constant(Number(maxGapBytes) + 1));
    const log = fc.tuple(fc.shuffledSubarray([...all.keys()]), fc.array(gap, { maxLength: all.length }), fc.boolean());
    fc.assert(
      fc.property(log, ([order, gaps, isSorted]) => {
        const sequence = isSorted ? order.toSorted((one, other) => one - other) : order;
        const events = place(
          sequence.flatMap((index) => all[index] ?? []),
          gaps,
        );
        const { resumes } = read(events);
        for (const [index, resume] of resumes.entries()) {
          const last = events[index]?.place.commit ?? 0n;
          const whole = read(events)
            .resumes.slice(index + 1)
            .map(formatPlace);
          const replayed = events.filter(
            ({ place: { commit } }) => commit > resume.after.commit && commit <= last,
          ).length;
          const again = read(events, resume);
          expect(again.resumes.slice(replayed).map(formatPlace)).toEqual(whole);
          // What is yielded from there is what comes later, and perhaps some of what came before once more.
          const later = namesOf(read(events).appends).slice(namesOf(read(events.slice(0, index + 1)).appends).length);
          const names = namesOf(again.appends);
          expect(names.slice(names.length - later.length)).toEqual(later);
        }
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('does not hold back the place for a call that is complete up to there', () => {
    const events = place(eventsOf(group, 'x-1').slice(0, 2));
    const { resumes } = read(events);
    expect(resumes.at(-1)?.after.commit).toBe(2n);
    expect(resumes.at(-1)?.calls).toMatchObject([{ sender: 'x', number: 1, next: 2 }]);
  });

  it("abandons a call when its sender's next one begins", () => {
    const [first, second] = [eventsOf(group, 'x-1'), eventsOf(group, 'x-2')];
    const { appends, resumes } = read(place([...first.slice(0, -1), ...second, ...first.slice(-1)]));
    expect(numbersOf(appends)).toEqual([1, 2, 3, 1, 2, 3, 4]);
    expect(resumes.at(-2)?.calls).toEqual([]);
  });

  it('abandons a call when more bytes pass than a call may take, and goes on from there', () => {
    const incomplete = eventsOf(group, 'x-1').slice(0, -1);
    const later = eventsOf([append({ number: 4 })], 'y-1');
    const near = read(place([...incomplete, ...later], [...incomplete.map(() => 0), Number(maxGapBytes) - 1]));
    expect(near.resumes.at(-1)?.calls.length).toBe(1);
    const far = read(place([...incomplete, ...later], [...incomplete.map(() => 0), Number(maxGapBytes)]));
    expect(far.resumes.at(-1)?.calls).toEqual([]);
    expect(numbersOf(far.appends)).toEqual([1, 2, 3, 4]);
  });

  it('throws EngineDamaged when a byte differs', () => {
    const [first, ...rest] = eventsOf([large], 'x-1');
    const data = Uint8Array.from(first?.data ?? []);
    data[5] = (data[5] ?? 0) ^ 4;
    const damaged = { metadata: first?.metadata, data };
    expect(() => read(place([damaged, ...rest]))).toThrow(EngineDamaged);
  });

  it('ignores metadata of others', () => {
    for (const metadata of [
      undefined,
      null,
      'text',
      5,
      {},
      { call: 'x', place: 3, of: 2 },
      { call: 'x', place: -1, of: 2 },
    ]) {
      expect(metadataOf(metadata)).toBeUndefined();
    }
  });
});

function namesOf(appends: readonly SequencedAppend[]): number[] {
  return numbersOf(appends, writerA);
}

describe('layOut', () => {
  it('keeps each appendToStream below 1 MiB as older servers count it, and an append that fits in one', () => {
    const appends = [group[0], large, append({ number: 3, bodies: [5 * 1024 * 1024] }), barrier(4)].flatMap(
      (one) => one ?? [],
    );
    const writes = layOut(appends, 'log', 'x-1');
    for (const { events } of writes) {
      const bytes = events.reduce(
        (sum, { type, data, metadata }) => sum + 2 * type.length + data.length + metadata.length,
        0,
      );
      expect(bytes).toBeLessThan(1024 * 1024);
    }
    expect(writes[0]?.events.length).toBe(2);
    expect(writes[1]?.stream).toBe('log.thing-a');
    expect(writes.at(-1)).toMatchObject({ stream: 'log.barrier', events: [{ type: 'barrier' }] });
  });

  it('gives the events of each call new ids, which are UUIDs', () => {
    const ids = ['x-1', 'x-2']
      .flatMap((call) => layOut(group, 'log', call))
      .flatMap(({ events }) => events.map(({ id }) => id));
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});

describe('formatPlace', () => {
  it('sorts like the positions and can be parsed', () => {
    const positions = fc.bigInt({ min: 0n, max: 2n ** 63n });
    const call = fc.record({
      sender: fc.stringMatching(/^[0-9a-f]{16}$/),
      number: fc.nat(),
      next: fc.nat(),
      since: positions,
      latest: positions,
    });
    fc.assert(
      fc.property(positions, positions, fc.array(call), (one, other, calls) => {
        const [a, b] = [one, other].map((commit) => ({ commit, prepare: commit, check: '00c0ffee' }));
        if (a === undefined || b === undefined) throw new Error('no places');
        const place = { after: a, readTo: calls.length === 0 ? a : b, calls };
        expect(parsePlace(formatPlace(place))).toEqual(place);
        expect(formatPlace(resumeAfter(a)) < formatPlace(resumeAfter(b))).toBe(one < other);
      }),
    );
  });
});
