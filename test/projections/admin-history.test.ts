import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { auditRead, keyDeactivated, keyLabelsChanged } from '../../src/events/catalogue/access.ts';
import { budgetReset, budgetSet } from '../../src/events/catalogue/budget.ts';
import { providerModelsListed } from '../../src/events/catalogue/provider.ts';
import { type Position, type RecordedEvent, streamName } from '../../src/events/event.ts';
import {
  allHistory,
  changedPartOf,
  type HistoryPage,
  type HistoryQuery,
  parseSubject,
  streamOf,
  subjectHistory,
  subjectKinds,
  subjectOf,
  subjectText,
} from '../../src/projections/admin-history.ts';
import { adminJournal } from '../../src/projections/admin-journal.ts';
import { fold } from '../../src/projections/projection.ts';
import { countOf } from '../support/seed.ts';
import {
  admin,
  credentialSaved,
  history,
  keyMade,
  policyRemoved,
  policySet,
  SEALED,
  SECRET_HASH,
  type Written,
  write,
} from './admin-events.ts';
import { openTestLog, type TestLog } from './log-engines.ts';

let opened: TestLog;
beforeEach(async () => {
  opened = await openTestLog('memory');
});
afterEach(() => opened.discard());

async function historyOf(subject: string, query: Partial<HistoryQuery> = {}): Promise<HistoryPage | undefined> {
  const parsed = parseSubject(subject);
  if (parsed === undefined) throw new Error(`${subject} is no subject`);
  return subjectHistory(opened.log, parsed, { limit: 50, ...query });
}

function journalOf(events: readonly RecordedEvent[]) {
  const { types = [] } = adminJournal.filter;
  return fold(
    adminJournal,
    events.filter(({ type }) => types.some((one) => type.startsWith(one))),
  );
}

describe('subjects', () => {
  test('are the names of streams, there and back', () => {
    for (const kind of subjectKinds) {
      for (const id of ['x', '/a/b', 'a-b:c-d', '/']) {
        const subject = { kind, id };
        expect(subjectOf(streamOf(subject))).toEqual(subject);
        expect(parseSubject(subjectText(subject))).toEqual(subject);
      }
    }
  });

  test.each(['', 'key', 'key:', ':x', 'exchange:1', 'response:1', 'KEY:1'])('%j is not a subject', (text) => {
    expect(parseSubject(text)).toBeUndefined();
  });

  test('are not the streams of clients', () => {
    expect(subjectOf(streamName('exchange', '1'))).toBeUndefined();
    expect(subjectOf(streamName('conversation', '1'))).toBeUndefined();
  });
});

describe('the history of one subject', () => {
  test('has who changed what, from what to what, the newest first', async () => {
    const context = { actor: 'key:7', userPath: '/a', requestId: 'req-2' } as const;
    const [, second] = await write(opened.log, [
      policySet('/a', ['m']),
      policySet('/a', ['m', 'n'], context as never),
      policyRemoved('/a'),
    ]);
    const page = await historyOf('user:/a');
    expect(page?.hasMore).toBe(false);
    expect(page?.changes.map(({ type }) => type)).toEqual([
      'user.policy_removed',
      'user.policy_set',
      'user.policy_set',
    ]);
    expect(page?.changes[1]).toEqual({
      position: second?.position,
      revision: '1',
      at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      actor: 'key:7',
      user_path: '/a',
      request_id: 'req-2',
      subject: 'user:/a',
      type: 'user.policy_set',
      before: { user_path: '/a', allowed_models: ['m'] },
      after: { user_path: '/a', allowed_models: ['m', 'n'] },
      changed: ['allowed_models'],
    });
    expect(page?.changes[0]).toMatchObject({ after: null, changed: ['allowed_models', 'user_path'] });
    expect(page?.changes[2]).toMatchObject({ before: null });
  });

  test('combines the events of a key', async () => {
    const onKey = (event: Written['event']): Written => ({ stream: streamName('key', '1'), event });
    await write(opened.log, [
      keyMade('1', { userPath: '/a' }),
      onKey(keyLabelsChanged.create({ labels: ['x'] }, admin)),
      onKey(keyDeactivated.create({}, admin)),
    ]);
    const page = await historyOf('key:1');
    expect(page?.changes.map(({ changed }) => changed)).toEqual([
      ['active'],
      ['labels'],
      expect.arrayContaining(['active', 'name']),
    ]);
    expect(page?.changes[0]?.after).toMatchObject({ user_path: '/a', labels: ['x'], active: false, name: 'key 1' });
  });

  test('never shows a secret, a hash or a ciphertext, only that it changed', async () => {
    await write(opened.log, [keyMade('1'), credentialSaved('one'), credentialSaved('one', false)]);
    const pages = [await historyOf('key:1'), await historyOf('credential:one')];
    const text = JSON.stringify(pages);
    expect(text).not.toContain(SECRET_HASH);
    expect(text).not.toContain(SEALED);
    expect(pages[0]?.changes[0]?.after).toMatchObject({ secret_hash: '***' });
    expect(pages[1]?.changes[0]).toMatchObject({ after: { api_keys: ['***', '***'] }, changed: ['enabled'] });
    expect(pages[1]?.changes[1]?.changed).toContain('api_keys');
  });

  test('keeps the periods of a budget apart, and has amounts in dollars', async () => {
    const budget = { scope: 'user_path', subject: '/a' } as const;
    const set = (periodSeconds: number, amount: string): Written => ({
      stream: streamName('budget', '/a'),
      event: budgetSet.create({ ...budget, periodSeconds, amount, source: 'manual' }, admin),
    });
    const reset = budgetReset.create({ ...budget, periodSeconds: 3600 }, admin);
    await write(opened.log, [
      set(3600, '1500000000'),
      set(86400, '9000000000'),
      set(3600, '2000000000'),
      { stream: streamName('budget', '/a'), event: reset },
    ]);
    const [forgiven, second, daily] = (await historyOf('budget:/a'))?.changes ?? [];
    expect(second).toMatchObject({ before: { amount: 1.5 }, after: { amount: 2 }, changed: ['amount'] });
    expect(daily).toMatchObject({ before: null, after: { amount: 9, period_seconds: 86400 } });
    expect(forgiven).toMatchObject({ after: { amount: 2, period_seconds: 3600 }, changed: ['last_reset_at'] });
  });

  test('lists the models of a provider by their ids', async () => {
    const listed = providerModelsListed.create(
      { models: [{ id: 'a', created: 1, ownedBy: 'x', metadata: { pages: 'of it' } }] },
      { actor: 'system' },
    );
    await write(opened.log, [{ stream: streamName('provider', 'local'), event: listed }]);
    expect((await historyOf('provider:local'))?.changes[0]?.after).toEqual({ models: ['a'] });
  });

  test('of reads has nothing before each', async () => {
    const read = auditRead.create({ what: 'response', id: 'resp_1', owner: 'key:1' }, admin);
    const on = { stream: streamName('audit', 'reads'), event: read };
    await write(opened.log, [on, on]);
    expect((await historyOf('audit:reads'))?.changes).toMatchObject([
      { before: null, after: { what: 'response', id: 'resp_1', owner: 'key:1' } },
      { before: null },
    ]);
  });

  test('is undefined for an unknown subject', async () => {
    expect(await historyOf('key:none')).toBeUndefined();
    await write(opened.log, [keyMade('1')]);
    expect(await historyOf('key:1', { before: '0000000000000001' as Position })).toEqual({
      changes: [],
      hasMore: false,
    });
  });
});

test('the changes of a subject are a chain: each begins where the one before it ended', async () => {
  await fc.assert(
    fc.asyncProperty(history, async (written) => {
      const { log, discard } = await openTestLog('memory');
      const events = await write(log, written);
      for (const stream of new Set(events.map((event) => event.stream))) {
        const subject = subjectOf(stream);
        if (subject === undefined) continue;
        const page = await subjectHistory(log, subject, { limit: 10_000 });
        const oldestFirst = [...(page?.changes ?? [])].reverse();
        const own = events.filter((event) => event.stream === stream);
        expect(oldestFirst.map(({ position }) => position)).toEqual(own.map(({ position }) => position));
        // The budgets of one path are a chain for each period.
        const links = Map.groupBy(oldestFirst, (_, index) => changedPartOf(own[index] ?? { type: '', data: {} }));
        for (const chain of links.values()) {
          for (const [index, one] of chain.entries()) expect(one.before).toEqual(chain[index - 1]?.after ?? null);
        }
      }
      await discard();
    }),
    { numRuns: countOf(8, 30) },
  );
});

test('pages of any size, of one subject or of everything, have every change once and in order', async () => {
  await fc.assert(
    fc.asyncProperty(history, fc.integer({ min: 1, max: 7 }), fc.boolean(), async (written, limit, forwards) => {
      const { log, discard } = await openTestLog('memory');
      const events = await write(log, written);
      const journal = journalOf(events);
      const of = (query: HistoryQuery) => allHistory(log, journal, query);
      const user = (query: HistoryQuery) => subjectHistory(log, { kind: 'user', id: '/a' }, query);
      for (const read of [of, user]) {
        const whole = (await read({ limit: 10_000 }))?.changes ?? [];
        const changes: unknown[] = [];
        for (let edge: Position | undefined = forwards ? ('0' as Position) : undefined; ; ) {
          const page = await read(forwards ? { limit, after: edge } : { limit, before: edge });
          if (page === undefined) break;
          if (forwards) changes.unshift(...page.changes);
          else changes.push(...page.changes);
          if (!page.hasMore) break;
          edge = forwards ? page.changes[0]?.position : page.changes.at(-1)?.position;
        }
        expect(changes).toEqual(whole);
      }
      await discard();
    }),
    { numRuns: countOf(8, 30) },
  );
});

test('the history of everything has each change as the history of its subject has it', async () => {
  const events = await write(opened.log, fc.sample(history, { numRuns: 5, seed: 3 }).flat());
  const everything = await allHistory(opened.log, journalOf(events), { limit: 10_000 });
  expect(everything.changes.length).toBeGreaterThan(20);
  for (const one of everything.changes) {
    const page = await historyOf(one.subject, { limit: 10_000 });
    expect(page?.changes).toContainEqual(one);
  }
});
