/** Events as a Parquet file, made by the embedded ClickHouse in a folder of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { RecordedEvent } from '../events/event.ts';
import { openEmbeddedClickHouse } from '../http/clickhouse/embedded-clickhouse.ts';
import { TsvRows, time, tsvText } from '../projections/analytics/tsv.ts';

const columns = `position String, id UUID, type LowCardinality(String), schema UInt16, stream String, revision UInt64,
  at DateTime64(6, 'UTC'), actor LowCardinality(String), user_path String, request_id String, correlation_id String,
  causation_id String, traceparent String, data String, body Nullable(String)`;

const BATCH_BYTES = 8 * 1024 * 1024;

/**
 * Writes all events to `path`, in the order of the log. A missing text is empty; a missing body is NULL.
 * @throws EmbeddedUnavailable where there is no chDB
 */
export async function writeParquet(events: AsyncIterable<RecordedEvent>, path: string): Promise<void> {
  const folder = await mkdtemp(join(dirname(resolve(path)), '.chancery-parquet-'));
  try {
    const engine = await openEmbeddedClickHouse({ folder, access: { databases: ['export'], files: true } });
    const connection = engine.connect({ role: 'writer', readOnly: false });
    try {
      await connection.query('CREATE DATABASE export', 'Null');
      await connection.query(`CREATE TABLE export.events (${columns}) ENGINE = MergeTree ORDER BY position`, 'Null');
      let rows = new TsvRows();
      const send = async () => {
        const into = { table: 'export.events', columns: undefined, format: 'TabSeparated' } as const;
        if (rows.count > 0) await connection.insert({ ...into, values: rows.all() });
        rows = new TsvRows();
      };
      for await (const event of events) {
        write(rows, event);
        if (rows.bytes >= BATCH_BYTES) await send();
      }
      await send();
      const file = resolve(path).replaceAll('\\', '\\\\').replaceAll("'", "\\'");
      await connection.query(
        `INSERT INTO FUNCTION file('${file}', 'Parquet', '${columns.replaceAll("'", "\\'")}')
          SELECT * FROM export.events ORDER BY position`,
        'Null',
      );
    } finally {
      connection.close();
      await engine.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function write(rows: TsvRows, { context, ...event }: RecordedEvent): void {
  const { actor, userPath, requestId, correlationId, causationId, traceparent } = context;
  const fields = [
    ...[
      event.position,
      event.id,
      tsvText(event.type),
      event.schema,
      tsvText(event.stream),
      event.revision,
      time(event.at),
    ],
    ...[actor, userPath, requestId, correlationId, causationId, traceparent, JSON.stringify(event.data)].map(tsvText),
  ];
  rows.write(`${fields.join('\t')}\t`);
  if (event.body === undefined) rows.write('\\N');
  else rows.writeBytes(event.body);
  rows.end(rows.count);
}
