/**
 * The seeded history as a data folder. It is built once and kept for the day in the system's folder for temporary
 * files; each caller gets a copy. `chancery-history-*` there can be removed at any time.
 */
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withLock } from '../../../../scripts/install-lock.mjs';
import { ask, root, serve } from '../../../e2e/gateway-process.ts';
import { countOf } from '../../../support/seed.ts';
import { until } from '../until.ts';
import { buildHistory, type HistoryFacts } from './build-history.ts';

const prefix = 'chancery-history-';
const KEPT_MS = 6 * 3_600_000;
/** How long the first start may take to write the history to analytics. */
const ANALYTICS_PATIENCE_MS = 120_000;

/** How many exchanges the history of the tests has at least. */
export const exchangesOfTests = countOf(6_000, 20_000);

export interface SeededFolder {
  readonly dataDir: string;
  readonly facts: HistoryFacts;
  remove(): void;
}

/**
 * A copy of its own for one gateway. The first caller of the day builds the history, which takes up to a minute.
 * @param exchanges how many it has at least
 */
export async function seededFolder(exchanges = exchangesOfTests): Promise<SeededFolder> {
  const kept = join(tmpdir(), `${prefix}${digest(exchanges)}`);
  if (!existsSync(kept))
    await withLock(
      `${kept}.lock`,
      () => {},
      () => keepHistory(kept, exchanges),
    );
  const copy = mkdtempSync(join(tmpdir(), 'chancery-browser-'));
  const dataDir = join(copy, 'data');
  cpSync(join(kept, 'data'), dataDir, { recursive: true });
  const facts: HistoryFacts = JSON.parse(readFileSync(join(kept, 'facts.json'), 'utf8'));
  return { dataDir, facts, remove: () => rmSync(copy, { recursive: true, force: true, maxRetries: 3 }) };
}

/** Of the sources that determine the history, and of the day: it ends at the time at which it was built. */
function digest(exchanges: number): string {
  const hash = createHash('sha256').update(`${new Date().toISOString().slice(0, 10)} ${exchanges}`);
  const sources = globSync(
    ['test/browser/support/history/*.ts', 'src/events/**/*.ts', 'src/projections/analytics/**/*.ts'],
    { cwd: root },
  );
  for (const file of sources.sort()) hash.update(readFileSync(join(root, file)));
  return hash.digest('hex').slice(0, 16);
}

async function keepHistory(kept: string, exchanges: number): Promise<void> {
  if (existsSync(kept)) return;
  removeOld();
  const building = mkdtempSync(join(tmpdir(), 'chancery-building-'));
  try {
    const dataDir = join(building, 'data');
    mkdirSync(dataDir);
    const facts = await buildHistory(dataDir, exchanges);
    await writeToAnalytics(dataDir);
    writeFileSync(join(building, 'facts.json'), JSON.stringify(facts, null, 2));
    renameSync(building, kept);
  } finally {
    rmSync(building, { recursive: true, force: true, maxRetries: 3 });
  }
}

function removeOld(): void {
  for (const name of globSync(`${prefix}*`, { cwd: tmpdir() })) {
    const path = join(tmpdir(), name);
    if (Date.now() - statSync(path).mtimeMs > KEPT_MS) rmSync(path, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** One start with analytics, until every event is in ClickHouse. */
async function writeToAnalytics(dataDir: string): Promise<void> {
  const { url, process } = await serve({ dataDir, env: { ANALYTICS_ENABLED: 'true', ANALYTICS_SANDBOX: 'off' } });
  try {
    await until('analytics is up to date', () => isUpToDate(url), ANALYTICS_PATIENCE_MS);
  } finally {
    process.kill('SIGTERM');
    await process.exited;
  }
}

async function isUpToDate(url: string): Promise<boolean> {
  const metrics = await (await ask(url, '/metrics')).text();
  return /^gateway_projection_lag_events\{[^}]*projection="analytics"[^}]*\} 0$/m.test(metrics);
}
