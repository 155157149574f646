/** The rows of the live list: the same, however the stream was received. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addEvents, noEvents, rateAt } from '../../dashboard/src/live/event-rate.ts';
import type { LiveEvent, RequestPreview, UsageTotals } from '../../dashboard/src/live/live-event.ts';
import { countAfter, itemsOf } from '../../dashboard/src/live/live-items.ts';
import { type LiveRow, usageOfRow } from '../../dashboard/src/live/live-row.ts';
import { LiveState } from '../../dashboard/src/live/live-state.ts';
import { retryDelay } from '../../dashboard/src/live/retry-delay.ts';
import { RowList } from '../../dashboard/src/live/row-list.ts';
import { changesMessages } from '../../dashboard/src/live/tab-messages.ts';
import { countOf } from '../support/seed.ts';
import { histories, type Step, sentAtConnection, steps } from './live-model.ts';

type History = readonly Extract<LiveEvent, { kind: 'request' | 'usage' }>[];

const NOW = 1_000_000;

/** Everything at once, on one connection from the beginning. */
function receivedAtOnce(history: History, capacity?: number): LiveState {
  const state = new LiveState(capacity);
  state.beginAnew(NOW);
  state.apply([...sentAtConnection(history, 0, undefined, 0), ...history], NOW);
  return state;
}

/** The same history, over connections that break. */
function receivedInSteps(history: History, steps: readonly Step[], replayed: number, capacity?: number): LiveState {
  const state = new LiveState(capacity);
  let head = 0;
  const connect = (step: Step) => {
    const cursor = state.position;
    if (cursor === undefined) state.beginAnew(NOW);
    const sent = sentAtConnection(history, head, cursor, replayed);
    const end = Math.min(history.length, head + step.appended);
    const all = [...sent, ...history.slice(head, end)];
    head = end;
    const arrived = all.slice(0, Math.ceil((all.length * step.arrives) / 1000));
    state.apply(arrived, NOW);
    state.apply(
      arrived.filter(({ isNew, kind }) => isNew && kind !== 'reset').slice(-step.repeated || arrived.length),
      NOW,
    );
    head = Math.min(history.length, head + step.missed);
  };
  connect({ appended: 0, arrives: 1000, repeated: 0, missed: 0 });
  for (const step of steps) connect(step);
  connect({ appended: history.length, arrives: 1000, repeated: 0, missed: 0 });
  return state;
}

/** What the audit log has at the end: ended requests with their usage. */
function recordEnds(state: LiveState, history: History): void {
  for (const { id } of state.loadingGaps) {
    for (const event of history) {
      if (event.kind !== 'request' || event.request.outcome === undefined) continue;
      state.record(wholeRequest(history, event.request), recordedUsage(history, event.request.id));
    }
    state.updateGap(id, { state: 'loaded' });
  }
}

function wholeRequest(history: History, { id }: RequestPreview): RequestPreview {
  const previews = history.flatMap((event) =>
    event.kind === 'request' && event.request.id === id ? [event.request] : [],
  );
  const { answerTail, ...request } = Object.assign({}, ...previews) as RequestPreview;
  return request;
}

function recordedUsage(history: History, exchangeId: string): UsageTotals | undefined {
  const usages = history.flatMap((event) =>
    event.kind === 'usage' && event.usage.exchangeId === exchangeId ? [event.usage] : [],
  );
  if (usages.length === 0) return undefined;
  const inputTokens = usages.reduce((sum, usage) => sum + (usage.inputTokens ?? 0), 0);
  return { entries: usages.length, inputTokens, outputTokens: null, cost: usages.length * 0.5 };
}

/** What must not depend on the connections. The text of an answer is not in the audit log. */
function essence(rows: readonly LiveRow[]) {
  return rows.map((row) => ({
    ...{ id: row.id, startedAt: row.startedAt, path: row.path, resolvedModel: row.resolvedModel },
    ...{ state: row.state === 'streaming' ? 'in_flight' : row.state, status: row.status },
    usage: row.outcome === undefined ? undefined : usageOfRow(row),
  }));
}

describe('the rows of the live list', () => {
  it('are the same for any division of the events into connections, with resets and repetitions', () => {
    fc.assert(
      fc.property(histories, steps, fc.nat(10), (history, plan, replayed) => {
        const state = receivedInSteps(history, plan, replayed);
        recordEnds(state, history);
        expect(essence(state.rows)).toEqual(essence(receivedAtOnce(history).rows));
        expect(state.position).toBe(history.at(-1)?.position);
        expect(state.missedRows).toEqual([]);
      }),
      { numRuns: countOf(250, 1000) },
    );
  });

  it('have the same texts, too, when nothing is reset', () => {
    fc.assert(
      fc.property(histories, steps, (history, plan) => {
        const state = receivedInSteps(history, plan, Number.POSITIVE_INFINITY);
        expect(state.gaps).toEqual([]);
        expect(state.rows).toEqual(receivedAtOnce(history).rows);
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('are the newest ones, up to the capacity', () => {
    fc.assert(
      fc.property(histories, steps, fc.integer({ min: 1, max: 4 }), (history, plan, capacity) => {
        const state = receivedInSteps(history, plan, Number.POSITIVE_INFINITY, capacity);
        const all = receivedAtOnce(history).rows.map(({ id }) => id);
        expect(state.rows.map(({ id }) => id)).toEqual(all.slice(-capacity));
      }),
    );
  });

  it('are the same in a tab that gets them from another one, whenever it joins', () => {
    fc.assert(
      fc.property(histories, fc.array(fc.nat(9)), fc.nat(50), (history, portions, joins) => {
        const leader = new LiveState();
        const tab = new LiveState();
        leader.beginAnew(NOW);
        let from = 0;
        let hasJoined = false;
        for (const [turn, portion] of [...portions, history.length].entries()) {
          leader.apply(history.slice(from, from + portion), NOW);
          from += portion;
          const changes = leader.takeChanges();
          if (!hasJoined && turn < joins % (portions.length + 1)) continue;
          const { position, rate, lastAt, clockAhead } = leader;
          const posted = hasJoined ? changes : { rows: leader.rows, gaps: leader.gaps };
          const reached = {
            position,
            rate,
            lastAt,
            clockAhead,
            status: { state: 'live' },
            isLeaderVisible: true,
          } as const;
          for (const message of changesMessages(posted, reached, !hasJoined)) {
            tab.putChanges(structuredClone({ rows: message.rows, gaps: message.gaps }));
            if (message.reached !== undefined) tab.putReached(message.reached);
          }
          hasJoined = true;
        }
        expect(tab.rows).toEqual(leader.rows);
        expect(tab.position).toBe(leader.position);
        expect(tab.gaps).toEqual(leader.gaps);
      }),
    );
  });
});

describe('a row', () => {
  const event = (position: string, request: Partial<RequestPreview>): LiveEvent => ({
    ...{ kind: 'request', position, at: NOW, isNew: true },
    request: { id: 'one', startedAt: NOW, ...request },
  });

  it('goes from in flight over streaming to its end', () => {
    const state = new LiveState();
    const states: (string | undefined)[] = [];
    for (const next of [
      event('1', {}),
      event('2', { answerTail: 'Hel' }),
      event('3', { answerTail: 'Hello' }),
      event('4', { outcome: 'completed', status: 200, durationMs: 12 }),
      event('3', { answerTail: 'late' }),
    ]) {
      state.apply([next], NOW);
      states.push(state.rows[0]?.state);
    }
    expect(states).toEqual(['in_flight', 'streaming', 'streaming', 'completed', 'completed']);
    expect(state.rows[0]).toMatchObject({ answerTail: 'Hello', durationMs: 12 });
  });

  it('has its usage also when the usage comes first, and counts each entry once', () => {
    const state = new LiveState();
    const usage = (id: string, position: string): LiveEvent => ({
      ...{ kind: 'usage', position, at: NOW, isNew: true },
      usage: { id, exchangeId: 'one', inputTokens: 10, outputTokens: null, cost: 0.25 },
    });
    state.apply([usage('a', '1'), event('2', { outcome: 'failed' }), usage('a', '2'), usage('b', '3')], NOW);
    const [row] = state.rows;
    expect(row && usageOfRow(row)).toEqual({ entries: 2, inputTokens: 20, outputTokens: null, cost: 0.5 });
  });

  it('keeps the end of a long answer when it has ended', () => {
    const state = new LiveState();
    state.apply([event('1', { answerTail: '\u{1F600}'.repeat(2000) }), event('2', { outcome: 'completed' })], NOW);
    const tail = state.rows[0]?.answerTail ?? '';
    expect(tail.length).toBeLessThanOrEqual(400);
    expect(tail.isWellFormed()).toBe(true);
  });
});

describe('a list of rows', () => {
  it('is in the order of the starts and holds the newest, for any order of arrival', () => {
    const place = fc.record({ startedAt: fc.nat(20), id: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f') });
    fc.assert(
      fc.property(
        fc.uniqueArray(place, { selector: ({ id }) => id }),
        fc.integer({ min: 1, max: 5 }),
        (places, capacity) => {
          const list = new RowList(capacity);
          for (const one of places) list.put({ ...one, state: 'in_flight', position: '1', usages: [] });
          const sorted = [...places].sort((one, other) =>
            one.startedAt === other.startedAt ? one.id.localeCompare(other.id) : one.startedAt - other.startedAt,
          );
          expect(list.rows.map(({ id }) => id)).toEqual(sorted.slice(-capacity).map(({ id }) => id));
        },
      ),
    );
  });
});

describe('the items of the list', () => {
  const row = (startedAt: number): LiveRow => ({
    ...{ id: `r${startedAt}`, startedAt, state: 'completed', position: '1', usages: [] },
  });
  const gap = { id: 'gap', from: 15, to: 25, state: 'loaded', found: 1 } as const;
  const rows = [10, 20, 30].map(row);

  it('are newest first, a gap above the requests that started before its end', () => {
    expect(itemsOf(rows, [gap], undefined).map(({ id }) => id)).toEqual(['r30', 'gap', 'r20', 'r10']);
    expect(itemsOf([], [gap], undefined).map(({ id }) => id)).toEqual(['gap']);
  });

  it('are those after a place, and their number is the number of new rows', () => {
    expect(itemsOf(rows, [gap], { startedAt: 20, id: 'r20' }).map(({ id }) => id)).toEqual(['r30', 'gap']);
    expect(itemsOf(rows, [gap], { startedAt: 30, id: 'r30' })).toEqual([]);
    expect([undefined, rows[0], rows[2]].map((place) => countAfter(rows, place))).toEqual([3, 2, 0]);
  });
});

describe('the rate', () => {
  it('approaches the number of events per second, and falls to nothing without events', () => {
    let rate = noEvents;
    for (let at = 0; at < 20_000; at += 50) rate = addEvents(rate, 5, at);
    expect(rateAt(rate, 20_000)).toBeGreaterThan(90);
    expect(rateAt(rate, 20_000)).toBeLessThan(110);
    expect(rateAt(rate, 50_000)).toBeLessThan(0.1);
  });
});

describe('the pause before the next connection', () => {
  it('doubles up to 30 s, half of it random', () => {
    expect([1, 2, 3, 10].map((failures) => retryDelay(failures, undefined, 1))).toEqual([500, 1000, 2000, 30_000]);
    expect([1, 2, 3, 10].map((failures) => retryDelay(failures, undefined, 0))).toEqual([250, 500, 1000, 15_000]);
  });

  it('is never shorter than the gateway asks for', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100 }),
        fc.nat(60_000),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (failures, asked, random) => {
          expect(retryDelay(failures, asked, random)).toBeGreaterThanOrEqual(asked);
        },
      ),
    );
  });
});
