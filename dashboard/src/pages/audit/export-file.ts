/** Reads an export of the audit log into memory, with its progress. */
import { request } from '../../api/client.ts';
import type { QueryValue } from '../../app/router.ts';

export const exportFormats = ['csv', 'ndjson', 'parquet'] as const;
export type ExportFormat = (typeof exportFormats)[number];

export interface ExportProgress {
  readonly bytes: number;
  /** Lines so far; of a Parquet file, 0. */
  readonly rows: number;
  readonly totalRows: number;
}

const LINE_FEED = 10;

/** @throws ApiError, and AbortError when the signal is aborted */
export async function exportFile(
  format: ExportFormat,
  query: Readonly<Record<string, QueryValue>>,
  onProgress: (progress: ExportProgress) => void,
  signal: AbortSignal,
): Promise<Blob> {
  const response = await request('/admin/audit/export', { query: { ...query, format }, signal });
  const totalRows = Number(response.headers.get('x-total-count') ?? 0);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  let lines = 0;
  for await (const piece of response.body ?? []) {
    pieces.push(piece);
    bytes += piece.length;
    if (format !== 'parquet') lines += linesIn(piece);
    onProgress({ bytes, totalRows, rows: Math.min(totalRows, format === 'csv' ? Math.max(0, lines - 1) : lines) });
  }
  return new Blob(pieces, { type: response.headers.get('content-type') ?? 'application/octet-stream' });
}

function linesIn(piece: Uint8Array): number {
  let count = 0;
  for (let at = piece.indexOf(LINE_FEED); at !== -1; at = piece.indexOf(LINE_FEED, at + 1)) count += 1;
  return count;
}

/** Gives a file to the browser's downloads. */
export function saveFile(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has begun to read it.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
