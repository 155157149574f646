import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { UsageError } from '../../src/cli/command.ts';
import { analyticsRebuild, viewsList, viewsRebuild, viewsSkip, viewsStatus } from '../../src/cli/views.ts';
import { viewEventSkipped } from '../../src/events/catalogue/gateway.ts';
import { parsePosition, type RecordedEvent } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { BatchBuilder } from '../../src/projections/analytics/batch.ts';
import { keysView } from '../../src/projections/keys.ts';
import type { Projection } from '../../src/projections/projection.ts';
import { createProjectionRunner } from '../../src/projections/runner.ts';
import { savedViews } from '../../src/projections/saved-views.ts';
import { skippedEvents } from '../../src/projections/snapshot-basis.ts';
import { openViewStore, savedSnapshots, viewsFile } from '../../src/projections/view-store.ts';
import { writeHistory } from '../analytics/generated-history.ts';
import { screen, typed } from './screen.ts';

let dataDir: string;
let log: MemoryLog;
beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'chancery-views-'));
  log = new MemoryLog();
  await writeHistory(log, { exchanges: 150, seed: 3 });
});
afterEach(() => rmSync(dataDir, { recursive: true }));

async function eventsOf(type: string): Promise<RecordedEvent[]> {
  const found: RecordedEvent[] = [];
  for await (const event of log.readAll({ filter: { types: [type] } })) found.push(event);
  return found;
}

const noAnalytics = async () => ({ unknown: 'its process does not run' });

async function status() {
  const shown = screen();
  expect(await viewsStatus(typed({ on: ['json'] }), log, dataDir, noAnalytics, shown)).toBe(0);
  return JSON.parse(shown.out());
}

/** Runs a projection as the gateway does until it has reached the end, or stopped. */
async function runOnce<State>(projection: Projection<State>): Promise<{ error?: string; state: State }> {
  const views = openViewStore(viewsFile(dataDir));
  const runner = createProjectionRunner(log, views);
  const running = runner.run(projection);
  await running.caughtUp.catch(() => {});
  const { error } = running.status();
  await runner.close();
  views.close();
  return { state: running.state, ...(error === undefined ? {} : { error }) };
}

const skip = (name: string, values: Record<string, string>, shown = screen()) =>
  viewsSkip(typed({ operands: [name], values }), log, dataDir, 'ada', shown);

describe('chancery views list', () => {
  test('names every view once, with its subject', async () => {
    const shown = screen();
    expect(await viewsList(typed({ on: ['json'] }), shown)).toBe(0);
    const names = JSON.parse(shown.out()).map(({ name }: { name: string }) => name);
    expect(names).toEqual([...savedViews.map(({ name }) => name), 'analytics']);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('chancery views status', () => {
  test('reports how far each has come', async () => {
    await runOnce(keysView);
    const head = await log.head();
    await writeHistory(log, { exchanges: 3, seed: 4 });
    const { views } = await status();
    const behind = parsePosition(await log.head()) - parsePosition(head);
    expect(views.find(({ name }: { name: string }) => name === 'keys')).toMatchObject({
      position: head,
      lagEvents: behind,
      note: null,
      savedAt: expect.stringMatching(/Z$/),
    });
    expect(views.find(({ name }: { name: string }) => name === 'spend')).toMatchObject({
      position: null,
      note: 'not saved yet: built at the next start',
    });
    expect(views.at(-1)).toMatchObject({ name: 'analytics', position: null, note: 'its process does not run' });
  });

  test('as text has analytics too', async () => {
    await runOnce(keysView);
    const shown = screen();
    await viewsStatus(typed(), log, dataDir, async () => ({ position: 12 }), shown);
    expect(shown.out()).toMatch(/^log +ends at \d{16}$/m);
    expect(shown.out()).toMatch(/^keys +at \d{16}, 0 events behind, saved \S+Z, .*bytes|KiB$/m);
    expect(shown.out()).toMatch(/^analytics +at 0000000000000012, [\d,]+ events behind$/m);
  });
});

describe('chancery views rebuild', () => {
  test('makes the same as a running gateway, and the next start begins with it', async () => {
    const live = await runOnce(keysView);
    const before = savedSnapshots(viewsFile(dataDir)).get('keys');
    rmSync(viewsFile(dataDir));
    const shown = screen();
    expect(await viewsRebuild(typed({ operands: ['keys'] }), log, dataDir, shown)).toBe(0);
    expect(shown.out()).toMatch(/^keys was rebuilt from \d+ events, up to \d{16}\n$/);
    expect(savedSnapshots(viewsFile(dataDir)).get('keys')).toMatchObject({
      position: await log.head(),
      size: before?.size,
      version: keysView.version,
    });
    expect((await runOnce(keysView)).state).toEqual(live.state);
  });

  test.each(savedViews.map(({ name }) => name))('%s', async (name) => {
    expect(await viewsRebuild(typed({ operands: [name] }), log, dataDir, screen())).toBe(0);
    expect(savedSnapshots(viewsFile(dataDir)).get(name)?.position).toBe(await log.head());
  });

  test('stopped half way it leaves the earlier state', async () => {
    await runOnce(keysView);
    const before = savedSnapshots(viewsFile(dataDir));
    const shown = screen();
    shown.stop();
    expect(await viewsRebuild(typed({ operands: ['keys'] }), log, dataDir, shown)).toBe(1);
    expect(shown.err()).toBe('chancery: stopped before the end: keys is unchanged\n');
    expect(savedSnapshots(viewsFile(dataDir))).toEqual(before);
  });

  test('of an empty log makes nothing', async () => {
    const shown = screen();
    expect(await viewsRebuild(typed({ operands: ['keys'] }), new MemoryLog(), dataDir, shown)).toBe(0);
    expect(shown.out()).toMatch(/the log is empty/);
  });

  test.each([
    ['kesy', /there is no view "kesy"/],
    ['', /there is no view ""/],
  ])('%s is refused', async (name, message) => {
    await expect(viewsRebuild(typed({ operands: [name] }), log, dataDir, screen())).rejects.toThrow(message);
  });

  test('from a position on works for analytics alone', async () => {
    const requested = typed({ operands: ['keys'], values: { from: '12' } });
    await expect(viewsRebuild(requested, log, dataDir, screen())).rejects.toThrow(
      '--from is only for analytics: keys is built',
    );
    const shown = screen();
    const rebuilt: (number | undefined)[] = [];
    const rebuild = async ({ from }: { from: number | undefined }) => {
      rebuilt.push(from);
      return log.head();
    };
    for (const from of ['0000000000000012', undefined]) {
      expect(await analyticsRebuild(typed({ operands: ['analytics'], values: { from } }), rebuild, shown)).toBe(0);
    }
    expect(rebuilt).toEqual([12, undefined]);
    expect(shown.out()).toContain(`analytics was rebuilt, up to ${await log.head()}`);
    const wrong = typed({ operands: ['analytics'], values: { from: 'noon' } });
    await expect(analyticsRebuild(wrong, rebuild, shown)).rejects.toThrow(/^--from: /);
  });
});

describe('a poisoned event', () => {
  /** Keys, for which one event cannot be read. */
  async function poisoned() {
    const bad = (await eventsOf('key.created')).at(1);
    if (bad === undefined) throw new Error('the history has no keys');
    const projection: typeof keysView = {
      ...keysView,
      apply(state, event) {
        if (event.position === bad.position) throw new Error('no such thing');
        return keysView.apply(state, event);
      },
    };
    return { bad, projection };
  }

  test('stops that projection with advice in its error; skipped, it continues, and who and why is on record', async () => {
    const { bad, projection } = await poisoned();
    const advice = `chancery views skip keys --position ${bad.position} --reason`;
    expect((await runOnce(projection)).error).toContain(`event ${bad.position} (key.created of ${bad.stream})`);
    expect((await runOnce(projection)).error).toContain(advice);
    const other = await runOnce({ ...keysView, name: 'others' });
    expect(other.error).toBeUndefined();

    expect(await skip('keys', { position: String(Number(bad.position)), reason: 'made by a broken build' })).toBe(0);
    const { error, state } = await runOnce(projection);
    expect(error).toBeUndefined();
    expect(state.byId.size).toBe(other.state.byId.size - 1);
    const [recorded] = await eventsOf(viewEventSkipped.type);
    expect(recorded?.data).toEqual({
      view: 'keys',
      position: bad.position,
      eventType: 'key.created',
      eventStream: bad.stream,
      reason: 'made by a broken build',
      by: 'ada',
    });
    expect((await status()).views.find(({ name }: { name: string }) => name === 'keys').skipped).toMatchObject([
      { position: bad.position, reason: 'made by a broken build', by: 'ada' },
    ]);
  });

  test('skipped twice is on record once', async () => {
    const { bad } = await poisoned();
    const values = { position: bad.position, reason: 'why' };
    expect([await skip('keys', values), await skip('keys', values)]).toEqual([0, 0]);
    expect(await eventsOf(viewEventSkipped.type)).toHaveLength(1);
  });

  test('makes no rows in analytics once it is skipped, and its batch ends where it would have', async () => {
    const [bad] = await eventsOf('usage.recorded');
    if (bad === undefined) throw new Error('the history has no usage');
    await skip('analytics', { position: bad.position, reason: 'why' });
    const skipped = new Set((await skippedEvents(log)).map(({ position }) => position));
    const whole = new BatchBuilder({ after: 0, resumeAfter: 0 }, { audit: 0, usage: 0 });
    const without = new BatchBuilder({ after: 0, resumeAfter: 0 }, { audit: 0, usage: 0 }, skipped);
    for await (const event of log.readAll()) {
      whole.apply(event);
      without.apply(event);
    }
    for (const builder of [whole, without]) builder.caughtUp();
    const none = async () => new Map();
    const [all, fewer] = [await whole.end(none), await without.end(none)];
    expect(fewer.to).toBe(all.to);
    expect(fewer.events).toBe(all.events);
    const at = parsePosition(bad.position);
    expect(all.rows.usage.ids).toContain(at);
    expect(fewer.rows.usage.ids).not.toContain(at);
    expect(fewer.rows.events.ids).toEqual(all.rows.events.ids.filter((id) => id !== at));
  });

  test('stops analytics with the same advice', () => {
    const builder = new BatchBuilder({ after: 0, resumeAfter: 0 }, { audit: 0, usage: 0 });
    const broken = { type: 'usage.recorded', position: '0000000000000001', stream: 'exchange-a', context: {}, at: 0 };
    expect(() => builder.apply(broken as RecordedEvent)).toThrow(
      /event 0000000000000001 \(usage\.recorded of exchange-a\) cannot be processed: .*chancery views skip analytics/,
    );
  });

  test('that was processed already is not skipped', async () => {
    await runOnce(keysView);
    const { bad } = await poisoned();
    const shown = screen();
    expect(await skip('keys', { position: bad.position, reason: 'why' }, shown)).toBe(1);
    expect(shown.err()).toMatch(/^chancery: keys has already processed event \d+: it is at \d+\n$/);
    expect(await eventsOf(viewEventSkipped.type)).toEqual([]);
  });

  test.each([
    ['kesy', { position: '1', reason: 'why' }, /there is no view "kesy"/],
    ['keys', { reason: 'why' }, /--position POSITION is required/],
    ['keys', { position: 'soon', reason: 'why' }, /"soon" is not a position of this log/],
    ['keys', { position: '1' }, /--reason TEXT is required/],
    ['keys', { position: '1', reason: '  ' }, /--reason TEXT is required/],
  ])('%s %o is refused', async (name, values, message) => {
    await expect(skip(name, values as Record<string, string>)).rejects.toThrow(UsageError);
    await expect(skip(name, values as Record<string, string>)).rejects.toThrow(message);
  });

  test('that does not exist is not skipped', async () => {
    const shown = screen();
    expect(await skip('keys', { position: '99999999', reason: 'why' }, shown)).toBe(1);
    expect(shown.err()).toBe('chancery: the log has no event 0000000099999999\n');
  });
});
