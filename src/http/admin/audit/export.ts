/** `GET /admin/audit/export`: all requests that a filter finds, as a file, sent as they are found. */
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { refusals } from '../../../commands/refusal.ts';
import type { Ask } from '../../../projections/analytics/analytics-db.ts';
import type { AuditFilter } from '../../../projections/analytics/audit-filter.ts';
import {
  allOfAudit,
  auditTotal,
  type RequestUsage,
  usageOfRequests,
} from '../../../projections/analytics/audit-queries.ts';
import { auditParquet, exportColumns, MOST_PARQUET_ROWS } from '../../../projections/analytics/audit-stats.ts';
import type { ExchangeRow } from '../../../projections/analytics/exchange-row.ts';
import { parameterWithDefault, queryOfParameters, wordParameter } from '../../api/parameters.ts';
import { type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { eventContextOf } from '../../server.ts';
import { csvLine } from '../reports/report-csv.ts';
import { type Reports, reportContext, reportHeaders, untilGone } from '../reports/report-db.ts';
import { slimEntries } from './entry.ts';
import { auditById, auditParameters, filterInAudit, requestedAudit } from './filter.ts';

/** Larger exports need narrower filters, or a reader of the log itself. */
const MOST_ROWS = 1_000_000;
const PART_ROWS = 2_000;

const formats = ['csv', 'ndjson', 'parquet'] as const;
type ExportFormat = (typeof formats)[number];
const types: Readonly<Record<ExportFormat, string>> = {
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
  parquet: 'application/vnd.apache.parquet',
};
type TextFormat = Exclude<ExportFormat, 'parquet'>;

const getExport = scopedAdmin('adminAuditExport', 'Export all requests that match a filter, as a file', {
  exposeHeadRoute: false,
  description:
    `Newest first, at most ${MOST_ROWS.toLocaleString('en-US')} requests, as Parquet ` +
    `${MOST_PARQUET_ROWS.toLocaleString('en-US')}. \`x-total-count\` is their number. In CSV, an apostrophe precedes ` +
    'text that a spreadsheet would read as a formula. Every export is recorded.',
  querystring: queryOfParameters({
    ...auditParameters,
    format: parameterWithDefault(wordParameter(formats, 'Format of the file'), 'csv'),
  }),
  requestHeaders: reportHeaders,
  response: {
    200: {
      description: 'The file',
      content: {
        'text/csv': { schema: { type: 'string' } },
        'application/x-ndjson': { schema: { type: 'string' } },
        'application/vnd.apache.parquet': { schema: { type: 'string', format: 'binary' } },
      },
    },
  },
});

export function registerAuditExport(admin: Routes, reports: Reports): void {
  const { db, items, audit, files, isKept, analytics, now } = reports;
  admin.get('/audit/export', getExport, async (request, reply) => {
    const requested = requestedAudit(request.query, reportContext(request, now()));
    const { format } = request.query;
    if (!isKept && format !== 'parquet') return send(reply, format, 0, nothing(format));
    // A file that only looks complete would be taken for the whole.
    if (!isKept || analytics().health === 'off') throw refusals.featureUnavailable(whyNothing(format, isKept));
    const gone = untilGone(reply);
    const ask: Ask = (query, parameters) => db.rows(query, parameters, gone);
    const { filter } = await auditById(request.query, requested, ask, items);
    const total = await auditTotal(ask, filter);
    const most = format === 'parquet' ? MOST_PARQUET_ROWS : MOST_ROWS;
    if (total > most) {
      throw refusals.invalidRequest(
        `The filter finds ${total} requests; at most ${most} can be exported at once as ${format}. Request fewer days.`,
        'start_date',
      );
    }
    await audit.question('audit_export', filterInAudit(request.query), eventContextOf(request));
    if (format === 'parquet') return send(reply, format, total, await auditParquet(files, filter, gone));
    return send(reply, format, total, linesOf(format, ask, filter));
  });
}

function whyNothing(format: ExportFormat, isKept: boolean): string {
  const what = format === 'parquet' ? 'It writes Parquet files, so there is none' : 'There is nothing to export';
  return isKept
    ? `Analytics is off, or has not started yet. ${what}. It is switched on with ANALYTICS_ENABLED.`
    : `Requests are not kept (LOGGING_ENABLED=false). There is nothing to export as Parquet.`;
}

function send(
  reply: FastifyReply,
  format: ExportFormat,
  total: number,
  lines: AsyncIterable<string | Buffer> | Iterable<string>,
) {
  return reply
    .type(types[format])
    .header('content-disposition', `attachment; filename="audit-log.${format}"`)
    .header('x-total-count', total)
    .send(Readable.from(lines, { objectMode: false }));
}

async function* linesOf(format: TextFormat, ask: Ask, filter: AuditFilter): AsyncGenerator<string> {
  yield* nothing(format);
  for await (const rows of allOfAudit(ask, filter, PART_ROWS)) {
    yield (await (format === 'csv' ? csvLines(ask, rows) : jsonLines(ask, rows))).join('');
  }
}

async function csvLines(ask: Ask, rows: readonly ExchangeRow[]): Promise<string[]> {
  const usage = await usageOfRequests(ask, rows);
  return rows.map((row) => {
    const cells = cellsOf(row, usage.get(row.id));
    return csvLine(columns.map((name) => cells[name]));
  });
}

async function jsonLines(ask: Ask, rows: readonly ExchangeRow[]): Promise<string[]> {
  return (await slimEntries(ask, rows)).map((entry) => `${JSON.stringify(entry)}\n`);
}

/** What a file without rows holds. */
function nothing(format: TextFormat): readonly string[] {
  return format === 'csv' ? [csvLine(columns)] : [''];
}

const columns = Object.keys(exportColumns) as readonly (keyof typeof exportColumns)[];

/** Columns of other names or values than those of the row. */
function cellsOf(row: ExchangeRow, usage: RequestUsage | undefined) {
  return {
    ...row,
    timestamp: timeText(Number(row.at_us) / 1000),
    status_code: row.status,
    provider: row.provider_type,
    provider_name: row.provider,
    labels: row.labels.join(' '),
    stream: row.stream === 1,
    attempts: row.attempts.length,
    input_tokens: usage?.tokens?.input ?? null,
    output_tokens: usage?.tokens?.output ?? null,
    total_tokens: usage?.tokens?.total ?? null,
    total_cost_usd: usdText(usage?.totalCost ?? null),
    workflow_version: row.workflow_id === '' ? null : row.workflow_version,
    guardrails_edited: row.guardrails_edited === 1,
  };
}

/** To the nano-dollar: `0.000001500`. */
function usdText(nano: string | null): string | null {
  if (nano === null) return null;
  const digits = nano.replace('-', '').padStart(10, '0');
  return `${nano.startsWith('-') ? '-' : ''}${digits.slice(0, -9)}.${digits.slice(-9)}`;
}
