/**
 * One part of analytics as a process that can be killed: `clickhouse <folder> <port>` or
 * `projector <log folder> <ClickHouse URL> <database> <epoch>`. Sends its parent what it has done.
 */
import { once } from 'node:events';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { openLog } from '../../src/events/open-log.ts';
import { createClickHouseHttp } from '../../src/http/clickhouse/clickhouse-http.ts';
import { openEmbeddedClickHouse } from '../../src/http/clickhouse/embedded-clickhouse.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { startProjector } from '../../src/projections/analytics/projector.ts';

const [role, ...args] = process.argv.slice(2);
// Without its parent it has nothing to do.
process.once('disconnect', () => process.exit());

if (role === 'clickhouse') {
  const [folder = '', port] = args;
  const engine = await openEmbeddedClickHouse({ folder, access: { databases: ['chancery'] } });
  const server = createClickHouseHttp({
    engine,
    users: [{ name: 'projector', password: 'writes', limits: undefined }],
  });
  server.listen(Number(port), '127.0.0.1');
  await once(server, 'listening');
  process.send?.({ ready: true });
} else {
  const [folder = '', url = '', database = '', epoch] = args;
  const log = await openLog(`file:${folder}`, { readOnly: true });
  const client = createClient({
    url,
    username: 'projector',
    password: 'writes',
    request_timeout: 10_000,
    log: { level: ClickHouseLogLevel.OFF },
  });
  startProjector({
    log,
    store: createBatchStore(client, database, Number(epoch)),
    retention: { audit: 0, usage: 0 },
    batchEvents: 150,
    liveMs: 1,
    retryMs: 20,
    // A batch that the previous process left is reported as well.
    onStored: ({ to }) => process.send?.({ stored: to }),
    onError: ({ message }) => process.send?.({ error: message }),
  });
}
