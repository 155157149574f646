/** The verdicts of guardrails on requests, read from ClickHouse: equal to those in the events of the request. */
import type { VerdictRow } from '../verdicts.ts';
import type { AnalyticsDb } from './analytics-db.ts';
import { allOf, between } from './conditions.ts';
import type { ExchangeRow } from './exchange-row.ts';

type StoredVerdict = Omit<VerdictRow, 'findings' | 'duration_ns'> & {
  readonly id: string;
  readonly findings: Readonly<Record<string, string | number>>;
  readonly duration_ns: string | number;
};

/** By the id of the exchange, in the order in which they ran. */
export async function verdictsOfRequests(
  db: AnalyticsDb,
  rows: readonly Pick<ExchangeRow, 'id' | 'at_us' | 'duration_ms' | 'guardrail_runs'>[],
  signal?: AbortSignal,
): Promise<ReadonlyMap<string, readonly VerdictRow[]>> {
  const guarded = rows.filter(({ guardrail_runs }) => guardrail_runs > 0);
  if (guarded.length === 0) return new Map();
  const starts = guarded.map(({ at_us }) => Number(at_us) / 1000);
  const ends = guarded.map(({ at_us, duration_ms }) => Number(at_us) / 1000 + duration_ms);
  const { sql, parameters } = allOf([between('at', Math.min(...starts) - 1, Math.max(...ends) + AFTER_END_MS)]);
  const found = await db.rows<StoredVerdict>(
    `SELECT exchange_id AS id, guardrail, type, phase, attempt, step, verdict, code, message, error, fail_mode, edited,
      findings, duration_ns, decided
    FROM $db.guardrail_verdicts WHERE ${sql} AND exchange_id IN {ids: Array(String)} ORDER BY position, run`,
    { ...parameters, ids: guarded.map(({ id }) => id) },
    signal,
  );
  const verdicts = new Map<string, VerdictRow[]>();
  for (const { id, findings, duration_ns, ...verdict } of found) {
    const counts = Object.fromEntries(Object.entries(findings).map(([kind, count]) => [kind, Number(count)]));
    const row = { ...verdict, findings: counts, duration_ns: Number(duration_ns) };
    const earlier = verdicts.get(id);
    if (earlier === undefined) verdicts.set(id, [row]);
    else earlier.push(row);
  }
  return verdicts;
}

/** The duration of a request does not include the time to record its end. */
const AFTER_END_MS = 60_000;
