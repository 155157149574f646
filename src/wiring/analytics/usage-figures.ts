/** What was used, for `GET /v1/usage`. Any key may ask, as often as it likes: what is asked again at once is asked once. */
import { summaryOf } from '../../http/admin/usage-answers.ts';
import type { UsageAsked, UsageFigures } from '../../http/v1/usage.ts';
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import { type Sums, usageTotals } from '../../projections/analytics/usage-queries.ts';

export interface UsageFiguresOptions {
  readonly db: AnalyticsDb;
  /** Otherwise nothing was used. */
  readonly enabled: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** For so long an answer holds for whoever asks the same. */
const SAME_MS = 1000;
/** The rest of the answer does not wait longer for the figures. */
const PATIENCE_MS = 3000;
const MOST_KNOWN = 1000;

export function createUsageFigures({ db, enabled, now }: UsageFiguresOptions): UsageFigures {
  const known = new Map<string, { readonly until: number; readonly figures: Promise<object | null> }>();

  async function figuresOf(asked: UsageAsked): Promise<object | null> {
    const { sql, parameters } = usageTotals(asked, 'uncached');
    try {
      return summaryOf(await db.rows<Sums>(sql, parameters, AbortSignal.timeout(PATIENCE_MS)));
    } catch {
      // The budgets and limits beside them are known all the same.
      return null;
    }
  }

  return async (asked) => {
    if (!enabled) return summaryOf([]);
    const name = JSON.stringify(asked);
    const at = now();
    const same = known.get(name);
    if (same !== undefined && at < same.until) return same.figures;
    if (known.size >= MOST_KNOWN) known.clear();
    const figures = figuresOf(asked);
    known.set(name, { until: at + SAME_MS, figures });
    return figures;
  };
}
