/** Formats: which ones can be streamed, which ones can be read as raw bytes, and their HTTP content types. */
import type { RawFormat } from './embedded-clickhouse.ts';

/** Formats without a head or a tail: the concatenated pieces of a result are the result. */
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
 * Formats for readers: formats of rows, for programs and for people. Excluded are those that read their schema or
 * template from a file (Template, Protobuf, CapnProto), use a registry (AvroConfluent), or are the protocol of another
 * server.
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

/** The name in ClickHouse's spelling; undefined when readers may not use the format. */
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

/** The name under which bytes of the format can be forwarded unchanged; undefined when they cannot. */
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
