/** The questions of docs/analytics.md and of the dashboards, on a history in which each has an answer. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { usageRecalculated, usageRecorded } from '../../src/events/catalogue/exchange.ts';
import { guardrailApplied, guardrailVerdicts } from '../../src/events/catalogue/guardrail.ts';
import { parsePosition } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { createMetrics } from '../../src/http/metrics.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { startProjector } from '../../src/projections/analytics/projector.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';
import { writeHistory } from './generated-history.ts';
import { figuresOfLog } from './log-figures.ts';

const text = readFileSync(join(import.meta.dirname, '../../docs/analytics.md'), 'utf8');
const guides = ['README.md', 'docs/admin.md', 'docs/analytics.md'].map((name) => ({
  name,
  text: readFileSync(join(import.meta.dirname, '../..', name), 'utf8'),
}));
/** The SQL in examples of requests: in `--data-binary "…"`, or in the `query` of a JSON body. */
const examples = guides.flatMap(({ name, text: guide }) =>
  [...guide.matchAll(/"(SELECT [^"]+)"/g)].map(([, sql = '']) => ({
    name,
    sql: sql.replaceAll("'\\''", "'").replace(/ FORMAT \w+$/, ''),
  })),
);
const questions = [...text.matchAll(/^### (\d+)\. (.+?)\n(?:(?!^###).)*?^```sql\n(.+?)^```$/gms)].map(
  ([, number = '', title = '', sql = '']) => ({ number: Number(number), title, sql }),
);
const dashboardsFolder = join(import.meta.dirname, '../../infra/grafana/dashboards');
interface Target {
  readonly rawSql?: string;
  readonly expr?: string;
}
interface Dashboard {
  readonly uid: string;
  readonly panels: readonly { readonly id: number; readonly title: string; readonly targets: readonly Target[] }[];
}
const dashboards: readonly Dashboard[] = readdirSync(dashboardsFolder).map((name) =>
  JSON.parse(readFileSync(join(dashboardsFolder, name), 'utf8')),
);
const targets = dashboards.flatMap(({ uid, panels }) =>
  panels.flatMap((panel) => panel.targets.map((target) => ({ name: `${uid}: ${panel.title}`, ...target }))),
);
const day = 24 * 3600_000;

/** The current cost of each usage, in nano-dollars; null is not known. */
async function costsKnown(log: MemoryLog): Promise<(string | null)[]> {
  const costs = new Map<string, string | null>();
  for await (const { id, type, data } of log.readAll()) {
    if (type === usageRecorded.type) costs.set(id, usageRecorded.data.parse(data).totalCost);
    if (type !== usageRecalculated.type) continue;
    const { usageId, totalCost } = usageRecalculated.data.parse(data);
    costs.set(usageId, totalCost);
  }
  return [...costs.values()];
}

test('there are twenty-three, each with its query, and no other SQL', () => {
  expect(questions.map(({ number }) => number)).toEqual(Array.from({ length: 23 }, (_, index) => index + 1));
  expect(text.match(/^```sql$/gm)).toHaveLength(23);
  for (const { sql } of questions) expect(sql, 'bounded in time').toMatch(/INTERVAL \d+ DAY/);
});

describe('the dashboards', () => {
  test('have panels with ids of their own, each with a query', () => {
    expect(new Set(dashboards.map(({ uid }) => uid)).size).toBe(3);
    for (const { panels } of dashboards) {
      expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
      for (const panel of panels) expect(panel.targets.length).toBeGreaterThan(0);
    }
    for (const { name, rawSql, expr } of targets) expect([rawSql, expr].filter(Boolean), name).toHaveLength(1);
  });

  test('use only metrics that the gateway declares', async () => {
    const declared = await createMetrics({ processMetrics: false }).text();
    const names = targets.flatMap(({ expr }) => expr?.match(/gateway_\w+/g) ?? []);
    expect(names.length).toBeGreaterThan(10);
    for (const name of names) expect(declared).toContain(`# TYPE ${name.replace(/_bucket$/, '')} `);
  });
});

describe.skipIf(!hasChdb)('the questions', () => {
  let embedded: Embedded;
  const log = new MemoryLog();

  beforeAll(async () => {
    embedded = await startEmbedded();
    const exchanges = 600;
    await writeHistory(log, { exchanges, seed: 11, from: Date.now() - 5 * day, everyMs: (5 * day) / exchanges });
    const store = createBatchStore(embedded.clientOf('projector'), 'chancery');
    const projector = startProjector({ log, store, retention: { audit: 0, usage: 0 }, liveMs: 1 });
    await projector.whenStored(parsePosition(await log.head()));
    await projector.close();
  }, 60_000);
  afterAll(() => embedded?.close());

  /** Queries as an analyst: read only, within an analyst's limits. */
  async function ask(query: string): Promise<Record<string, unknown>[]> {
    const result = await embedded.clientOf('analyst', 'chancery').query({ query, format: 'JSONEachRow' });
    return result.json();
  }

  test.each(questions)('$number: $title', { timeout: 30_000 }, async ({ sql }) => {
    expect(await ask(sql)).not.toEqual([]);
  });

  const ofCosts = examples.filter(({ sql }) => sql.includes('total_cost'));
  test('are found in the guides', () => {
    expect(new Set(ofCosts.map(({ name }) => name))).toEqual(new Set(guides.map(({ name }) => name)));
  });

  test.each(ofCosts)('$name: $sql', { timeout: 30_000 }, async ({ sql }) => {
    const costs = await costsKnown(log);
    const rows = await ask(sql);
    const known = rows.reduce((sum, { usd }) => sum + Number(usd ?? 0), 0);
    expect(known).toBeCloseTo(costs.reduce((sum: number, cost) => sum + Number(cost ?? 0), 0) / 1e9, 6);
    const unknown = rows.reduce((sum, { unknown_costs: count }) => sum + Number(count), 0);
    expect(unknown).toBe(costs.filter((cost) => cost === null).length);
    expect(unknown).toBeGreaterThan(0);
  });

  const panels = targets.flatMap(({ name, rawSql }) => (rawSql === undefined ? [] : [{ name, rawSql }]));
  test.each(panels)('panel $name', { timeout: 30_000 }, async ({ rawSql }) => {
    expect(rawSql, 'bounded in time').toContain('$__timeFilter(');
    const query = rawSql
      .replaceAll(/\$__timeFilter\((\w+)\)/g, '$1 >= now() - INTERVAL 30 DAY AND $1 <= now()')
      .replaceAll(/\$__timeInterval\((\w+)\)/g, 'toStartOfHour($1)');
    expect(await ask(query)).not.toEqual([]);
  });

  test('the runs, findings and stopped requests of guardrails add up to those of the log', {
    timeout: 30_000,
  }, async () => {
    const sums = { runs: 0, found: 0, stopped: 0 };
    const strongest = new Map<string, string>();
    const strength = (verdict: string) => (guardrailVerdicts as readonly string[]).indexOf(verdict);
    for await (const { type, stream, data } of log.readAll()) {
      if (type !== guardrailApplied.type) continue;
      const { verdict, runs } = guardrailApplied.data.parse(data);
      sums.runs += runs.length;
      for (const { findings } of runs) for (const count of Object.values(findings ?? {})) sums.found += count;
      if (strength(verdict) > strength(strongest.get(stream) ?? '')) strongest.set(stream, verdict);
    }
    sums.stopped = [...strongest.values()].filter((verdict) => ['block', 'respond'].includes(verdict)).length;
    for (const [number, column] of [
      [21, 'runs'],
      [22, 'found'],
      [23, 'stopped'],
    ] as const) {
      const rows = await ask(questions[number - 1]?.sql ?? '');
      expect(
        rows.reduce((total, row) => total + Number(row[column]), 0),
        column,
      ).toBe(sums[column]);
    }
  });

  test('the costs of teams, models and the current prices add up to those of the log', {
    timeout: 30_000,
  }, async () => {
    const { usage } = await figuresOfLog(log);
    const expected = Object.values(usage).reduce((sum, { totalCost }) => sum + Number(totalCost ?? 0), 0) / 1e9;
    for (const [number, column] of [
      [1, 'usd'],
      [2, 'usd'],
      [15, 'usd_now'],
    ] as const) {
      const rows = await ask(questions[number - 1]?.sql ?? '');
      const sum = rows.reduce((total, row) => total + Number(row[column] ?? 0), 0);
      expect(sum).toBeCloseTo(expected, 6);
    }
  });
});
