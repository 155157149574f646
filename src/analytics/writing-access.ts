/** The projector's access to ClickHouse: the configured server, or the embedded one of its own process. */
import { once } from 'node:events';
import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import type { Config } from '../config/config.ts';
import { lockForWriting } from '../events/embedded/writer-lock.ts';
import { createClickHouseHttp } from '../http/clickhouse/clickhouse-http.ts';
import { type EmbeddedClickHouse, openEmbeddedClickHouse } from '../http/clickhouse/embedded-clickhouse.ts';
import type { EngineAccess } from '../http/clickhouse/engine-access.ts';
import { newPassword } from './clickhouse-passwords.ts';
import { portOf } from './port-of.ts';

export interface WritingAccess {
  readonly client: ClickHouseClient;
  close(): Promise<void>;
}

export function writeToServer(server: { url: string; user: string; password: string }): WritingAccess {
  const client = clientOf(server);
  return { client, close: () => client.close() };
}

/** Writes over HTTP as to a server, at a separate address and with a password that only this process has. */
export async function writeToEngine(
  engine: EmbeddedClickHouse,
  onError: (error: unknown) => void,
): Promise<WritingAccess> {
  const [user, password] = ['projector', newPassword()];
  const server = createClickHouseHttp({ engine, users: [{ name: user, password, limits: undefined }], onError });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = clientOf({ url: `http://127.0.0.1:${portOf(server)}`, user, password });
  return {
    client,
    async close() {
      await client.close();
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The configured server, or the embedded ClickHouse, opened in this process. @throws EmbeddedUnavailable */
export async function writingAccess(
  { analytics }: Config,
  folder: string,
  access: EngineAccess = { databases: [analytics.clickhouse.database] },
): Promise<WritingAccess> {
  const { url, user, password = '' } = analytics.clickhouse;
  if (url !== undefined) return writeToServer({ url, user, password });
  const engine = await openEmbeddedClickHouse({ folder, access });
  const writing = await writeToEngine(engine, () => {});
  return {
    client: writing.client,
    async close() {
      await writing.close();
      await engine.close();
    },
  };
}

function clientOf({ url, user, password }: { url: string; user: string; password: string }): ClickHouseClient {
  return createClient({
    url,
    username: user,
    password,
    request_timeout: 120_000,
    application: 'chancery-analytics',
    log: { level: ClickHouseLogLevel.OFF },
  });
}

/** @throws Error when another process projects into or from this folder */
export function lockForAnalytics(folder: string): ReturnType<typeof lockForWriting> {
  try {
    return lockForWriting(folder);
  } catch (error) {
    throw new Error(`another analytics process runs on ${folder}`, { cause: error });
  }
}
