/** Usage for `GET /v1/usage`. Any key may call it at any rate, so results are cached for a short time. */
import { LRUCache } from 'lru-cache';
import { summaryOf } from '../../http/admin/reports/usage-answers.ts';
import type { UsageFigures, UsageFiguresQuery } from '../../http/v1/usage.ts';
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import { type Sums, usageTotals } from '../../projections/analytics/usage-queries.ts';

export interface UsageFiguresOptions {
  readonly db: AnalyticsDb;
  /** When false, usage is zero. */
  readonly enabled: boolean;
  /** Whether analytics is off. Default: it is not. */
  isAnalyticsOff?(): boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** How long a result is reused for the same query. */
const SAME_MS = 1000;
/** Timeout of the query, so that the rest of the answer is not delayed further. */
const TIMEOUT_MS = 3000;
const MAX_QUERIES = 1000;

interface Known {
  readonly until: number;
  readonly figures: Promise<object | null>;
}

export function createUsageFigures({ db, enabled, isAnalyticsOff, now }: UsageFiguresOptions): UsageFigures {
  const known = new LRUCache<string, Known>({ max: MAX_QUERIES });

  async function figuresOf(query: UsageFiguresQuery): Promise<object | null> {
    const { sql, parameters } = usageTotals(query, 'uncached');
    try {
      return summaryOf(await db.rows<Sums>(sql, parameters, AbortSignal.timeout(TIMEOUT_MS)));
    } catch {
      // The answer's budgets and limits are available all the same.
      return null;
    }
  }

  async function figures(query: UsageFiguresQuery): Promise<object | null> {
    if (!enabled) return summaryOf([]);
    const name = JSON.stringify(query);
    const at = now();
    const same = known.get(name);
    if (same !== undefined && at < same.until) return same.figures;
    const read = figuresOf(query);
    known.set(name, { until: at + SAME_MS, figures: read });
    return read;
  }

  return Object.assign(figures, { isOff: () => !enabled || isAnalyticsOff?.() === true });
}
