/** An embedded ClickHouse behind its HTTP interface, for one test file: chDB has one folder for each process. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { createClickHouseHttp } from '../../src/http/clickhouse/clickhouse-http.ts';
import { openEmbeddedClickHouse } from '../../src/http/clickhouse/embedded-clickhouse.ts';
import type { RecordedQuery, RecordQuery } from '../../src/http/clickhouse/reader-request.ts';
import type { TurnLimits, UnreadLimits } from '../../src/http/clickhouse/turns.ts';
import { analystLimits, gatewayLimits, readersMemoryBytes, type User } from '../../src/http/clickhouse/users.ts';

/** Whether chDB is installed: without it, the tests that need it are skipped. */
export const hasChdb = (() => {
  try {
    createRequire(import.meta.url).resolve('chdb');
    return true;
  } catch {
    return false;
  }
})();

export interface Embedded {
  readonly url: string;
  /** Of the engine's data. */
  readonly folder: string;
  readonly server: Server;
  /** Queries of analysts, in the order in which they were recorded. */
  readonly recorded: RecordedQuery[];
  clientOf(user: 'projector' | 'gateway' | 'administrator' | 'analyst', database?: string): ClickHouseClient;
  close(): Promise<void>;
}

const users: readonly User[] = [
  { name: 'projector', password: 'writes', limits: undefined },
  { name: 'gateway', password: 'asks', limits: gatewayLimits, recordedByCaller: true },
  { name: 'analyst', password: "wo'nders:é", limits: { ...analystLimits, seconds: 5, resultRows: 200_000 } },
  { name: 'administrator', password: 'governs', limits: analystLimits, recordedByCaller: true },
  { name: 'people', password: "wo'nders:é", limits: analystLimits },
];

export interface EmbeddedOptions {
  /** Databases that may be created and read. */
  readonly databases?: readonly string[];
  /** Default: every query can be recorded. */
  readonly record?: RecordQuery;
  /** Default: as in use. */
  readonly unread?: UnreadLimits;
  /** Of all readers together. Default: as in use. */
  readonly turns?: TurnLimits;
}

export async function startEmbedded(options: EmbeddedOptions = {}): Promise<Embedded> {
  const { databases = ['chancery', 'shop', 'gw'], record = async () => {}, turns, unread } = options;
  const recorded: RecordedQuery[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'chancery-clickhouse-'));
  const engine = await openEmbeddedClickHouse({ folder, access: { databases }, memoryBytes: readersMemoryBytes });
  const server = createClickHouseHttp({
    engine,
    users:
      turns === undefined
        ? users
        : users.map((user) => ({ ...user, limits: user.limits && { ...user.limits, turns } })),
    ...(unread === undefined ? {} : { unread }),
    async record(query) {
      recorded.push(query);
      await record(query);
    },
    onError: (error) => console.error(error),
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  const url = `http://127.0.0.1:${address.port}`;
  const clients: ClickHouseClient[] = [];
  return {
    url,
    folder,
    server,
    recorded,
    clientOf(name, database) {
      const password = users.find((user) => user.name === name)?.password;
      const log = { level: ClickHouseLogLevel.OFF };
      const client = createClient({ url, username: name, password, database, log, request_timeout: 60_000 });
      clients.push(client);
      return client;
    },
    async close() {
      for (const client of clients) await client.close();
      server.close();
      server.closeAllConnections();
      await engine.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
