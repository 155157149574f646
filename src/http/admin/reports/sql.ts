/** `POST /admin/sql`: a SQL query by a read-only user, recorded before it is executed. */
import { z } from 'zod';
import type { ReadAudit } from '../../../commands/audit/audit-reads.ts';
import { refusals } from '../../../commands/refusal.ts';
import type { AnalyticsAddress } from '../../../projections/analytics/analytics-db.ts';
import { askSql, type SqlAnswer, type SqlQuestion, SqlRefused } from '../../../projections/analytics/sql-query.ts';
import { printable } from '../../../projections/printable.ts';
import { globalAdmin, type Routes } from '../../api/route-schema.ts';
import { ClickHouseException } from '../../clickhouse/embedded-clickhouse.ts';
import { LONGEST_QUERY, LONGEST_TEXT, normalFormQuery, withoutScope } from '../../clickhouse/normal-form.ts';
import { NotForReaders, readerQuery } from '../../clickhouse/reader-query.ts';
import { withinLimits } from '../../clickhouse/users.ts';
import { eventContextOf } from '../../server.ts';
import { untilGone } from './report-db.ts';

/**
 * A reader's query on a ClickHouse server: checked like one on the embedded ClickHouse, with the server's own normal
 * form and list of functions. The user's grants on the server decide which tables it may read.
 */
interface ServerFacts {
  readonly functions: ReadonlySet<string>;
  /** Whether the user's profile allows writes, so that each query must set `readonly`. */
  readonly mayWrite: boolean;
  readonly readAt: number;
}

/** The list of functions is read again after this time, since an upgraded server may have more. */
const FACTS_MS = 10 * 60_000;

type QueryServer = (server: AnalyticsAddress, question: SqlQuestion, signal: AbortSignal) => Promise<SqlAnswer>;

/** The function throws NotForReaders, ClickHouseException for a setting, and what `askSql` throws. */
function createQueryServer(): QueryServer {
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

interface SqlDependencies {
  readonly audit: ReadAudit;
  /** Address for readers' queries; undefined while analytics is unavailable. */
  address(): AnalyticsAddress | undefined;
  /** Whether queries go to a ClickHouse server: the embedded one checks readers' queries itself. */
  readonly isServer: boolean;
  /** The reason for a missing address, unless it is temporary. */
  readonly whyNot?: string | undefined;
}

/** How long the result is, uncompressed: a client sees whether all of it has arrived, and nothing else. */
const RESULT_BYTES = 'x-gateway-result-bytes';
/** An answer is held in memory before it is sent, so the limits are lower than ClickHouse's own. */
const limits = { seconds: 30, rows: 100_000, bytes: 16 * 1024 * 1024 };

const sqlFormats = [
  'JSON',
  'JSONCompact',
  'JSONEachRow',
  'CSV',
  'CSVWithNames',
  'TabSeparated',
  'TabSeparatedWithNames',
  'Markdown',
  'Vertical',
  'PrettyCompact',
] as const;

const sqlQuery = z.strictObject({
  query: z
    .string()
    .trim()
    .min(1)
    .refine((query) => Buffer.byteLength(query) <= LONGEST_QUERY, `must have at most ${LONGEST_QUERY} bytes`)
    .describe('One statement that reads: SELECT, WITH, SHOW, DESCRIBE, …'),
  format: z.enum(sqlFormats).default('JSON').describe('Used when the query has no FORMAT clause'),
});

const postSql = globalAdmin('adminSql', 'Run a SQL query', {
  description:
    'ClickHouse runs the query as a read-only user, with limits on time, memory and the size of the answer. The query is recorded before it runs. The header `x-gateway-result-bytes` has the length of the result. See docs/analytics-tables.md for the tables.',
  body: sqlQuery,
  example: { query: 'SELECT count() FROM exchanges', format: 'JSON' },
  response: {
    200: {
      description: 'The answer in the requested format',
      content: {
        'application/json': { schema: { type: 'object' } },
        'text/plain': { schema: { type: 'string' } },
        'text/csv': { schema: { type: 'string' } },
      },
    },
  },
});

/** ClickHouse's codes for a query that exceeds a limit. */
const tooMuch = new Set([158, 159, 160, 241, 307, 396]);
/** ClickHouse's codes for wrong credentials, which the client cannot correct. */
const notLetIn = new Set([192, 193, 194, 516]);

export function registerSql(admin: Routes, { audit, address, isServer, whyNot }: SqlDependencies): void {
  const ask = isServer ? createQueryServer() : askSql;
  admin.post('/sql', postSql, async (request, reply) => {
    const { query, format } = request.body;
    const where = address();
    if (where === undefined) {
      throw refusals.featureUnavailable(whyNot ?? 'Analytics is off or has not started yet.');
    }
    // Recorded before it is checked, so that refused queries are on record too.
    await audit.question('sql', { query, format }, eventContextOf(request));
    try {
      const { contentType, bytes } = await ask(where, { query, format, limits }, untilGone(reply));
      const answer = contentType.startsWith('text/') ? printable(Buffer.from(bytes).toString()) : bytes;
      return reply
        .type(contentType)
        .header('x-content-type-options', 'nosniff')
        .header(RESULT_BYTES, Buffer.byteLength(answer))
        .send(answer);
    } catch (error) {
      if (error instanceof NotForReaders)
        throw refusals.sqlRefused(`The query is not allowed for readers: ${error.message}.`);
      if (error instanceof ClickHouseException) throw refusals.sqlRefused(error.message);
      if (!(error instanceof SqlRefused)) {
        throw refusals.analyticsUnavailable(error instanceof Error ? error : new Error(String(error)));
      }
      if (notLetIn.has(error.code)) throw refusals.analyticsUnavailable(error);
      const message = withoutScope(error.message);
      throw tooMuch.has(error.code) ? refusals.sqlOverLimit(message) : refusals.sqlRefused(message);
    }
  });
}
