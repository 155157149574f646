/** Sends a query. The gateway records it before it runs. */
import { ApiError, request } from '../../api/client.ts';
import { type SqlTable, tableOf } from './sql-result.ts';
import { IncompleteResult, wholeResult } from './whole-result.ts';

export type SqlAnswer =
  | { readonly kind: 'table'; readonly table: SqlTable }
  /** In a format that the query chose itself. */
  | { readonly kind: 'text'; readonly text: string };

/** @throws ApiError, and AbortError when the signal is aborted: ClickHouse then ends the query */
export async function runSql(query: string, signal: AbortSignal): Promise<SqlAnswer> {
  const response = await post(query, 'JSONCompact', signal);
  const text = await (await resultOf(response)).text();
  const table = tableOf(response.headers.get('content-type') ?? '', text);
  return table === undefined ? { kind: 'text', text } : { kind: 'table', table };
}

export const fileFormats = [
  { name: 'CSVWithNames', title: 'CSV', extension: 'csv' },
  { name: 'JSON', title: 'JSON', extension: 'json' },
  { name: 'JSONEachRow', title: 'JSON lines', extension: 'ndjson' },
  { name: 'TabSeparatedWithNames', title: 'TSV', extension: 'tsv' },
  { name: 'Markdown', title: 'Markdown', extension: 'md' },
] as const;
export type FileFormat = (typeof fileFormats)[number]['name'];

/** Runs the query again, with all rows of its result. @throws ApiError */
export async function fileOf(query: string, format: FileFormat, signal: AbortSignal): Promise<Blob> {
  return resultOf(await post(query, format, signal));
}

function post(query: string, format: FileFormat | 'JSONCompact', signal: AbortSignal): Promise<Response> {
  return request('/admin/sql', { method: 'POST', json: { query, format }, signal });
}

async function resultOf(response: Response): Promise<Blob> {
  try {
    return await wholeResult(response);
  } catch (error) {
    if (!(error instanceof IncompleteResult)) throw error;
    throw new ApiError(error.message, { status: 0, code: 'no_json' });
  }
}
