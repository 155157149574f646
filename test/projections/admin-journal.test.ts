import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { catalogue } from '../../src/events/catalogue/catalogue.ts';
import { formatPosition, type Position, type RecordedEvent, START } from '../../src/events/event.ts';
import {
  type AdminJournal,
  adminJournal,
  journalPage,
  newestBy,
  positionsUntil,
} from '../../src/projections/admin-journal.ts';
import { fold } from '../../src/projections/projection.ts';
import { countOf } from '../support/seed.ts';
import { history, write } from './admin-events.ts';
import { openTestLog, type TestLog } from './log-engines.ts';

let opened: TestLog;
beforeEach(async () => {
  opened = await openTestLog('memory');
});
afterEach(() => opened.discard());

/** The journal of a log, and its events. */
function journalOf(events: readonly RecordedEvent[]): { journal: AdminJournal; known: RecordedEvent[] } {
  const { types = [] } = adminJournal.filter;
  const known = events.filter(({ type }) =>
    types.some((one) => (one.endsWith('.') ? type.startsWith(one) : type === one)),
  );
  return { journal: fold(adminJournal, known), known };
}

/** Events at these times, one a position, of two families in turn. */
function timed(...times: number[]): RecordedEvent[] {
  return times.map((at, index) => ({
    id: String(index),
    type: index % 2 === 0 ? 'key.created' : 'user.policy_set',
    schema: 1,
    stream: 'key-1' as RecordedEvent['stream'],
    revision: BigInt(index),
    position: formatPosition(index + 1),
    at,
    context: { actor: 'master' },
    data: {},
  }));
}

const positions = (page: { positions: readonly Position[] }) => page.positions.map(Number);

/**
 * Types of events that are no entries of the history: of requests, of gateways, and of what providers do. Among them are
 * two of administrators: `usage.recalculated`, one for each request, and runs of guardrail drafts, which have their own list.
 */
const noChanges =
  /^(access|answer|attempt|audit|batch|chunk|client|client_secret|conversation|cost|exchange|file|frame|gateway|guard|guardrail_replay|history|idempotency|item|job|lease|log|model|placeholders|plugin|request|requests|response|tool|tool_approval|tool_call|usage)\./;
const otherTypes: ReadonlySet<string> = new Set([
  // Renewed by the gateway itself.
  ...['mcp_authorization.saved', 'mcp_authorization.removed'],
  ...['cache.hit', 'cache.stored', 'cache.vector_stored', 'guardrail.applied', 'provider.models_listed'],
  ...['provider.became_available', 'provider.became_unavailable', 'provider.capability_learned'],
  // What a server says of its tools. What administrators accept of it is in the history.
  'mcp_tools.changed',
  // Of files, which each gateway reads: it is in the log and in the diagnostics.
  ...['provider.circuit_changed', 'configuration.reloaded'],
]);

describe('the journal of administrators', () => {
  test('has every type of event that is not known to be something else', () => {
    const { types = [] } = adminJournal.filter;
    const missing = [...catalogue.keys()].filter(
      (type) => !types.some((one) => type.startsWith(one)) && !noChanges.test(type) && !otherTypes.has(type),
    );
    expect(missing).toEqual([]);
  });

  test('is the same after it was saved and loaded, at any moment', async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(), async (written, cut) => {
        const log = await openTestLog('memory');
        const { journal, known } = journalOf(await write(log.log, written));
        const middle = cut % (known.length + 1);
        const saved = structuredClone(adminJournal.save?.(fold(adminJournal, known.slice(0, middle))));
        const loaded = adminJournal.load?.(saved);
        expect(fold(adminJournal, known.slice(middle), loaded)).toEqual(journal);
        await log.discard();
      }),
      { numRuns: countOf(13, 50) },
    );
  });

  test('finds the newest change up to a time, including that millisecond', () => {
    const journal = fold(adminJournal, timed(1000.2, 1000.9, 2000.5));
    expect(newestBy(journal, 999)).toBeUndefined();
    expect(newestBy(journal, 1000)?.position).toBe(formatPosition(2));
    expect(newestBy(journal, 1999)?.position).toBe(formatPosition(2));
    expect(newestBy(journal, 2000)?.position).toBe(formatPosition(3));
  });

  test('keeps the order of the log when the clock was set back', () => {
    const journal = fold(adminJournal, timed(5000, 1000, 6000));
    expect(newestBy(journal, 2000)).toBeUndefined();
    expect(newestBy(journal, 5000)?.position).toBe(formatPosition(2));
  });

  test('finds exactly the changes of some families up to a position', async () => {
    await fc.assert(
      fc.asyncProperty(
        history,
        fc.subarray(['key', 'user', 'provider', 'tagging']),
        fc.nat(),
        async (written, families, at) => {
          const log = await openTestLog('memory');
          const events = await write(log.log, written);
          const { journal, known } = journalOf(events);
          const until = events[at % events.length]?.position ?? START;
          expect(positionsUntil(journal, families, until)).toEqual(
            known
              .filter(({ type, position }) => position <= until && families.includes(type.slice(0, type.indexOf('.'))))
              .map(({ position }) => position),
          );
          await log.discard();
        },
      ),
      { numRuns: countOf(13, 50) },
    );
  });
});

describe('a page of the journal', () => {
  const journal = fold(adminJournal, timed(10, 20, 30, 40, 50, 60));

  test('has the newest changes, newest first', () => {
    expect(journalPage(journal, { limit: 3 })).toMatchObject({ hasMore: true });
    expect(positions(journalPage(journal, { limit: 3 }))).toEqual([6, 5, 4]);
    expect(journalPage(journal, { limit: 6 }).hasMore).toBe(false);
  });

  test('continues before a position', () => {
    expect(positions(journalPage(journal, { limit: 2, before: formatPosition(4) }))).toEqual([3, 2]);
    expect(journalPage(journal, { limit: 2, before: formatPosition(4) }).hasMore).toBe(true);
    expect(journalPage(journal, { limit: 2, before: formatPosition(1) })).toEqual({ positions: [], hasMore: false });
  });

  test('begins right after a position', () => {
    expect(positions(journalPage(journal, { limit: 2, after: formatPosition(3) }))).toEqual([5, 4]);
    expect(positions(journalPage(journal, { limit: 9, after: formatPosition(3), before: formatPosition(6) }))).toEqual([
      5, 4,
    ]);
  });

  test('is narrowed by time, both ends included', () => {
    expect(positions(journalPage(journal, { limit: 9, from: 20, to: 40 }))).toEqual([4, 3, 2]);
    expect(positions(journalPage(journal, { limit: 9, from: 61 }))).toEqual([]);
    expect(positions(journalPage(journal, { limit: 9, to: 9 }))).toEqual([]);
  });

  test.each(['backwards', 'forwards'])('leads %s to every change exactly once', (direction) => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 5 }), (count, limit) => {
        const whole = fold(adminJournal, timed(...Array.from({ length: count }, (_, index) => index)));
        const seen: number[] = [];
        for (let edge: Position | undefined = direction === 'forwards' ? START : undefined; ; ) {
          const page = journalPage(whole, direction === 'forwards' ? { limit, after: edge } : { limit, before: edge });
          const found = positions(page);
          seen.push(...(direction === 'forwards' ? found.reverse() : found));
          if (!page.hasMore) break;
          edge = direction === 'forwards' ? page.positions[0] : page.positions.at(-1);
        }
        const all = Array.from({ length: count }, (_, index) => index + 1);
        expect(seen).toEqual(direction === 'forwards' ? all : all.reverse());
      }),
    );
  });
});
