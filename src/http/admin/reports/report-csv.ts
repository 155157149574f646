/** Reports as CSV: by `format=csv`, or by an `Accept` that begins with `text/csv`. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { printable } from '../../../projections/printable.ts';
import { type QueryParameter, wordParameter } from '../../api/parameters.ts';
import type { AnswerSchema } from '../../api/route-schema.ts';

// Rows for spreadsheets (RFC 4180). No cell can become a formula or send control sequences to a terminal.

/** First characters that spreadsheets read as the beginning of a formula. */
const FORMULA = /^[=+\-@\t\r\n]/;

export function csvLine(cells: readonly (string | number | boolean | null)[]): string {
  return `${cells.map(cell).join(',')}\r\n`;
}

function cell(value: string | number | boolean | null): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const shown = printable(value);
  const safe = FORMULA.test(shown.trimStart()) || FORMULA.test(shown) ? `'${shown}` : shown;
  return /[",\r\n\t]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const formats = ['json', 'csv'] as const;
type ReportFormat = (typeof formats)[number];

export const formatParameter: QueryParameter<ReportFormat | undefined> = wordParameter(
  formats,
  'Format of the answer. Default: CSV when `Accept` begins with `text/csv`, else JSON. In CSV, an apostrophe precedes ' +
    'text that a spreadsheet would read as a formula, and unknown numbers are empty',
);

/** Rows of a CSV answer of a list with pages: its `limit` and `offset` do not apply. */
export const MOST_CSV_ROWS = 5000;

/** An answer in JSON or CSV. */
export const reportAnswer = (description: string, schema: z.ZodType): AnswerSchema => ({
  description,
  content: { 'application/json': { schema }, 'text/csv': { schema: { type: 'string' } } },
});

export function wantsCsv({ headers }: Pick<FastifyRequest, 'headers'>, format: ReportFormat | undefined): boolean {
  if (format !== undefined) return format === 'csv';
  return /^\s*text\/csv\s*(?:[;,]|$)/i.test(headers.accept ?? '');
}

interface CsvTable {
  /** Of the file, without its extension. */
  readonly name: string;
  /** Its members are the columns. */
  readonly row: z.ZodObject;
  readonly rows: readonly object[];
  /** Of a list with pages: the number of all its rows. */
  readonly total?: number;
}

export function sendCsv(reply: FastifyReply, { name, row, rows, total }: CsvTable): FastifyReply {
  const columns = Object.keys(row.shape);
  const lines = rows.map((one) => {
    const members = new Map<string, unknown>(Object.entries(one));
    return csvLine(columns.map((column) => cellOf(column, members.get(column))));
  });
  return reply
    .type('text/csv; charset=utf-8')
    .header('content-disposition', `attachment; filename="${name}.csv"`)
    .header('x-total-count', total ?? rows.length)
    .send(csvLine(columns) + lines.join(''));
}

function cellOf(column: string, value: unknown): string | number | boolean | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'number') return column.endsWith('_cost') ? usdText(value) : value;
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (Array.isArray(value)) return value.join(' ');
  return JSON.stringify(value);
}

/** To the nano-dollar, without an exponent. No cell of a report's numbers is text that could be a formula. */
function usdText(value: number): string | number {
  return value < 0 || !Number.isFinite(value) ? value : value.toFixed(9);
}
