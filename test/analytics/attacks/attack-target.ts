/**
 * The setup for attacks: the embedded engine with a table, behind both interfaces, with a file that must not be read
 * and a listener that must not be contacted.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startTestGateway, type TestGateway } from '../../support/gateway.ts';
import { type Embedded, startEmbedded } from '../embedded.ts';
import type { Attempt } from './attempts/attempt.ts';

export interface Outcome {
  readonly by: 'port' | 'admin';
  readonly status: number;
  readonly text: string;
}

export interface AttackTarget {
  readonly embedded: Embedded;
  /** Of a file that readers must not read. */
  readonly canary: { readonly path: string; readonly content: string };
  /** An empty folder in which nothing may appear. */
  readonly outside: string;
  /** A listener that must get no connection. */
  readonly listener: { readonly host: string; contacts(): number };
  /** Through the ClickHouse port, and through `POST /admin/sql` when nothing has to be in the URL or a header. */
  attempt(attempt: Attempt): Promise<Outcome[]>;
  /** The state that an attack must not change. */
  state(): Promise<unknown>;
  ping(): Promise<string>;
  close(): Promise<void>;
}

const analyst = { username: 'people', password: "wo'nders:é" };

export async function startAttackTarget(): Promise<AttackTarget> {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-attacks-'));
  const outside = join(folder, 'outside');
  mkdirSync(outside);
  const canary = { path: join(folder, 'canary.txt'), content: `canary-${randomUUID()}` };
  writeFileSync(canary.path, `${canary.content}\n`);
  let contacts = 0;
  const listener = createServer((socket) => {
    contacts += 1;
    socket.destroy();
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  const host = `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;

  const embedded = await startEmbedded();
  const writer = embedded.clientOf('projector');
  await writer.command({ query: 'CREATE DATABASE chancery' });
  await writer.command({
    query: 'CREATE TABLE chancery.items (id UInt32, name String) ENGINE = MergeTree ORDER BY id',
  });
  await writer.command({ query: 'INSERT INTO chancery.items SELECT number, toString(number) FROM numbers(10)' });
  const gateway: TestGateway = await startTestGateway({
    analytics: {
      address: () => ({ url: embedded.url, username: 'administrator', password: 'governs', database: 'chancery' }),
      status: () => ({ health: 'ok', lagEvents: 0 }),
    },
  });

  const places: Readonly<Record<string, string>> = {
    $FILE: canary.path,
    $HOST: host,
    $OUTSIDE: outside,
    $DATA: embedded.folder,
  };
  const placed = (text: string) => text.replaceAll(/\$(?:FILE|HOST|OUTSIDE|DATA)/g, (name) => places[name] ?? name);
  const placedAll = (texts: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(texts).map(([name, value]) => [placed(name), placed(value)]));

  async function byPort({ query, url = {}, headers = {} }: Attempt): Promise<Outcome> {
    const answer = await fetch(`${embedded.url}/?${new URLSearchParams(placedAll(url))}`, {
      method: 'POST',
      body: placed(query),
      headers: {
        ...headers,
        authorization: `Basic ${Buffer.from(`${analyst.username}:${analyst.password}`).toString('base64')}`,
      },
    });
    return { by: 'port', status: answer.status, text: await answer.text() };
  }

  async function byAdmin({ query }: Attempt): Promise<Outcome> {
    const answer = await gateway.fetch('/admin/sql', { json: { query: placed(query), format: 'TabSeparated' } });
    return { by: 'admin', status: answer.status, text: await answer.text() };
  }

  return {
    embedded,
    canary,
    outside,
    listener: { host, contacts: () => contacts },
    async attempt(attempt) {
      const port = await byPort(attempt);
      return attempt.url === undefined && attempt.headers === undefined ? [port, await byAdmin(attempt)] : [port];
    },
    async state() {
      const rows = async (query: string) => (await writer.query({ query, format: 'TabSeparated' })).text();
      return {
        tables: await rows("SELECT database, name, create_table_query FROM system.tables WHERE database != 'system'"),
        // No role may list users, roles and the like, nor make any.
        functions: await rows("SELECT name FROM system.functions WHERE origin != 'System'"),
        settings: await rows('SELECT name, value FROM system.settings WHERE changed ORDER BY name'),
        folder: filesIn(embedded.folder),
        rows: await rows('SELECT count(), sum(id), groupArray(name) FROM (SELECT * FROM chancery.items ORDER BY id)'),
        outside: readdirSync(outside),
        canary: existsSync(canary.path) && readFileSync(canary.path, 'utf8'),
      };
    },
    ping: async () => (await fetch(`${embedded.url}/ping`)).text(),
    async close() {
      await gateway.close();
      await embedded.close();
      listener.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Files a query could write. Left out are the parts of tables, which ClickHouse merges, and what it keeps meanwhile. */
function filesIn(folder: string): string[] {
  const ofTables = /^(store|tmp)(\/|$)/;
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => !ofTables.test(name))
    .sort();
}

/** The environment of this process, as the kernel shows it: distinctive, and never part of an answer. */
export function environmentSecret(): string {
  const entries = readFileSync('/proc/self/environ', 'utf8').split('\0');
  return entries.find((entry) => entry.startsWith('PATH=')) ?? 'PATH=';
}
