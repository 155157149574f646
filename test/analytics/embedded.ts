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
import { analystLimits, gatewayLimits, type User } from '../../src/http/clickhouse/users.ts';

/** Whether chDB is installed: where it cannot be, what needs it is skipped. */
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
  readonly server: Server;
  clientOf(user: 'projector' | 'gateway' | 'analyst', database?: string): ClickHouseClient;
  close(): Promise<void>;
}

const users: readonly User[] = [
  { name: 'projector', password: 'writes', limits: undefined },
  { name: 'gateway', password: 'asks', limits: gatewayLimits },
  { name: 'analyst', password: "wo'nders:é", limits: { ...analystLimits, seconds: 5, resultRows: 200_000 } },
  { name: 'people', password: "wo'nders:é", limits: analystLimits },
];

/** @param databases what the engine lets be made and read */
export async function startEmbedded(databases: readonly string[] = ['chancery', 'shop', 'gw']): Promise<Embedded> {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-clickhouse-'));
  const engine = await openEmbeddedClickHouse({ folder, access: { databases } });
  const server = createClickHouseHttp({ engine, users, onError: (error) => console.error(error) });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  const url = `http://127.0.0.1:${address.port}`;
  const clients: ClickHouseClient[] = [];
  return {
    url,
    server,
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
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
