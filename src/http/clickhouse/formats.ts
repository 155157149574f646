/** Formats: which can be sent piece by piece, which can be taken in as raw bytes, and how they are called in HTTP. */
import type { RawFormat } from './embedded-clickhouse.ts';

/** Rows and nothing else: no head, no tail, so that the pieces of a result put together are the result. */
const streamable = new Set([
  'JSONEachRow',
  'JSONLines',
  'NDJSON',
  'JSONStringsEachRow',
  'JSONCompactEachRow',
  'JSONCompactStringsEachRow',
  'TabSeparated',
  'TSV',
  'TabSeparatedRaw',
  'TSVRaw',
  'CSV',
  'CustomSeparated',
  'TSKV',
  'LineAsString',
  'RawBLOB',
  'RowBinary',
  'Native',
]);

export function isStreamable(format: string): boolean {
  return streamable.has(format);
}

/**
 * For readers: formats of rows, for programs and for eyes. Left out is what takes a file for its schema or its template
 * (Template, Protobuf, CapnProto), asks a registry (AvroConfluent), or is the protocol of another server.
 */
const forReaders = new Map(
  `Arrow ArrowStream Avro BSONEachRow CSV CSVWithNames CSVWithNamesAndTypes CustomSeparated CustomSeparatedWithNames
  CustomSeparatedWithNamesAndTypes JSON JSONColumns JSONColumnsWithMetadata JSONCompact JSONCompactColumns
  JSONCompactEachRow JSONCompactEachRowWithNames JSONCompactEachRowWithNamesAndTypes JSONCompactStrings
  JSONCompactStringsEachRow JSONCompactStringsEachRowWithNames JSONCompactStringsEachRowWithNamesAndTypes JSONEachRow
  JSONEachRowWithProgress JSONL JSONLines JSONObjectEachRow JSONStrings JSONStringsEachRow LineAsString MD Markdown
  MsgPack NDJSON Native Null Parquet Pretty PrettyCompact PrettyCompactMonoBlock PrettyCompactNoEscapes PrettyJSONEachRow
  PrettyMonoBlock PrettyNoEscapes PrettySpace PrettySpaceMonoBlock PrettySpaceNoEscapes RawBLOB RowBinary
  RowBinaryWithNames RowBinaryWithNamesAndTypes SQLInsert TSKV TSV TSVRaw TSVRawWithNames TSVWithNames
  TSVWithNamesAndTypes TabSeparated TabSeparatedRaw TabSeparatedRawWithNames TabSeparatedWithNames
  TabSeparatedWithNamesAndTypes Values Vertical XML`
    .split(/\s+/)
    .map((name) => [name.toLowerCase(), name]),
);

/** The name as ClickHouse spells it; undefined when the format is not for readers. */
export function readerFormat(format: string): string | undefined {
  return forReaders.get(format.toLowerCase());
}

const raw: Readonly<Record<string, RawFormat>> = {
  JSONEachRow: 'JSONEachRow',
  JSONLines: 'JSONEachRow',
  NDJSON: 'JSONEachRow',
  JSONCompactEachRow: 'JSONCompactEachRow',
  CSV: 'CSV',
  CSVWithNames: 'CSVWithNames',
  TSV: 'TabSeparated',
  TabSeparated: 'TabSeparated',
  TSVWithNames: 'TabSeparatedWithNames',
  TabSeparatedWithNames: 'TabSeparatedWithNames',
};

/** The name under which bytes of the format can be handed on as they are; undefined when they cannot. */
export function rawFormat(format: string): RawFormat | undefined {
  return raw[format];
}

export function contentTypeOf(format: string): string {
  if (/^(JSONEachRow|JSONLines|NDJSON|JSON.*EachRow.*)$/.test(format)) return 'application/x-ndjson; charset=UTF-8';
  if (format.startsWith('JSON')) return 'application/json; charset=UTF-8';
  if (format.startsWith('CSV')) return 'text/csv; charset=UTF-8; header=absent';
  if (/^(TabSeparated|TSV)/.test(format)) return 'text/tab-separated-values; charset=UTF-8';
  if (format === 'XML') return 'application/xml; charset=UTF-8';
  if (/^(Native|RowBinary|Arrow|Parquet|ORC|Avro|MsgPack|RawBLOB)/.test(format)) return 'application/octet-stream';
  return 'text/plain; charset=UTF-8';
}
