/**
 * A reader's query on a ClickHouse server: checked like one on the embedded ClickHouse, with the server's own normal
 * form and list of functions. The user's grants on the server decide which tables it may read.
 */
import type { AnalyticsAddress } from '../../projections/analytics/analytics-db.ts';
import { askSql, type SqlAnswer, type SqlQuestion } from '../../projections/analytics/sql-query.ts';
import { LONGEST_TEXT, normalFormQuery } from '../clickhouse/normal-form.ts';
import { readerQuery } from '../clickhouse/reader-query.ts';
import { withinLimits } from '../clickhouse/users.ts';

interface ServerFacts {
  readonly functions: ReadonlySet<string>;
  /** Whether the user's profile allows writes, so that each query must set `readonly`. */
  readonly mayWrite: boolean;
  readonly readAt: number;
}

/** The list of functions is read again after this time, since an upgraded server may have more. */
const FACTS_MS = 10 * 60_000;

export type QueryServer = (server: AnalyticsAddress, question: SqlQuestion, signal: AbortSignal) => Promise<SqlAnswer>;

/** The function throws NotForReaders, ClickHouseException for a setting, and what `askSql` throws. */
export function createQueryServer(): QueryServer {
  const known = new Map<string, ServerFacts>();

  async function factsOf(server: AnalyticsAddress, question: SqlQuestion, signal: AbortSignal): Promise<ServerFacts> {
    const name = `${server.username}@${server.url}`;
    const before = known.get(name);
    if (before !== undefined && performance.now() - before.readAt < FACTS_MS) return before;
    const query = "SELECT toString(getSetting('readonly')) UNION ALL SELECT lower(name) FROM system.functions";
    const { bytes } = await askSql(server, { ...question, query, format: 'TabSeparated' }, signal);
    const all = bytes.toString().trim().split('\n');
    // Rows of the two queries come in any order.
    const mayWrite = all.includes('0');
    const facts = { functions: new Set(all), mayWrite, readAt: performance.now() };
    known.set(name, facts);
    return facts;
  }

  return async (server, question, signal) => {
    const { functions, mayWrite } = await factsOf(server, question, signal);
    const settings: Record<string, string> = { max_query_size: String(LONGEST_TEXT) };
    const formed = { ...question, query: normalFormQuery(question.query), format: 'RawBLOB', settings };
    const form = (await askSql(server, formed, signal)).bytes.toString('latin1');
    const context = { parameters: new Map(), databases: new Set([server.database]), engineFunctions: functions };
    const query = readerQuery(form, context);
    const chosen = withinLimits(limitsOf(question), query.settings);
    const allSettings = { ...settings, ...Object.fromEntries(chosen), ...(mayWrite ? { readonly: '1' } : {}) };
    return askSql(server, { ...question, query: query.text, settings: allSettings }, signal);
  };
}

function limitsOf({ limits: { seconds, rows, bytes } }: SqlQuestion): ReadonlyMap<string, string> {
  return new Map([
    ['max_execution_time', String(seconds)],
    ['max_result_rows', String(rows)],
    ['max_result_bytes', String(bytes)],
    ['result_overflow_mode', 'throw'],
  ]);
}
