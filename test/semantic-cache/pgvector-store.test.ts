import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { PgvectorStore } from '../../src/commands/semantic-cache/pgvector-store.ts';
import { EMBEDDED_DIMENSIONS, withEmbedder } from '../support/embedder.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { eventsUntil, modelsListed } from '../support/with-gateway.ts';
import { at, DIMENSION, describeVectorStore, entry, query } from './vector-store-contract.ts';

let db: PGlite;
let server: PGLiteSocketServer;
let url = '';
const opened: PgvectorStore[] = [];

beforeAll(async () => {
  db = await PGlite.create({ extensions: { vector } });
  server = new PGLiteSocketServer({ db, port: 0, host: '127.0.0.1', maxConnections: 32 });
  await server.start();
  url = `postgres://postgres:a-password@${server.getServerConn()}/postgres`;
});
afterAll(async () => {
  for (const store of opened) await store.close();
  await server.stop();
  await db.close();
});

function open(change: object = {}): PgvectorStore {
  const options = { url, table: 'vectors', dimension: DIMENSION, timeoutMs: 10_000, now: () => 1000, ...change };
  const store = new PgvectorStore(options);
  opened.push(store);
  return store;
}

describeVectorStore('PgvectorStore', async () => open());

describe('PgvectorStore', () => {
  it('creates its table once when several gateways start together, and keeps what is there', async () => {
    const stores = [open({ table: 'shared' }), open({ table: 'shared' }), open({ table: 'shared' })];
    const entries = stores.map((_, index) => entry({ vector: at(index * 40) }));
    await Promise.all(stores.map((store, index) => store.add(entries[index] ?? entry())));
    const later = open({ table: 'shared' });
    for (const [index, { digest }] of entries.entries()) {
      expect((await later.nearest(query({ vector: at(index * 40) })))?.digest).toBe(digest);
    }
  });

  it('deletes expired rows, at most once a minute', async () => {
    let now = 1000.5;
    const store = open({ table: 'swept', now: () => now });
    await store.add(entry({ expiresAt: 1001 }));
    now = 60_000;
    await store.add(entry({ expiresAt: 999_999 }));
    const rows = async () => (await db.query('SELECT 1 FROM swept')).rows.length;
    expect(await rows()).toBe(2);
    now = 61_000.5;
    await store.add(entry({ expiresAt: 999_999 }));
    expect(await rows()).toBe(2);
  });

  it.each(['a b', 'a"; DROP TABLE vectors', 'a.b.c', '', 'x'.repeat(64), 'Ä'])('refuses the table name %j', (table) => {
    expect(() => open({ table })).toThrow('no plain name of a table');
  });

  it('rejects a vector of another dimension, and names the setting', async () => {
    await expect(open().add(entry({ vector: new Float32Array(3) }))).rejects.toThrow(
      'SEMANTIC_CACHE_PGVECTOR_DIMENSION',
    );
  });

  it('creates the table when an earlier attempt failed', async () => {
    const store = open({ table: 'later.vectors' });
    await expect(store.nearest(query())).rejects.toThrow('schema "later" does not exist');
    await db.exec('CREATE SCHEMA later');
    const added = entry();
    await store.add(added);
    expect((await store.nearest(query()))?.digest).toBe(added.digest);
  });

  it('rejects without the password when the server cannot be reached', async () => {
    const store = open({ url: 'postgres://postgres:a-password@127.0.0.1:1/postgres' });
    const failed = await store.add(entry()).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(Error);
    expect(String(failed)).not.toContain('a-password');
  });
});

describe('a gateway with its vectors in pgvector', () => {
  const embedder = withEmbedder();

  it('serves similar requests, also after a restart, and all requests while the server is away', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-pgvector-'));
    const provider = createSimulatedProvider();
    const env = {
      ...(await embedder.env()),
      LLAMACPP_BASE_URL: await provider.listen(),
      ...{ SEMANTIC_CACHE_VECTOR_STORE_TYPE: 'pgvector', SEMANTIC_CACHE_PGVECTOR_URL: url },
      SEMANTIC_CACHE_PGVECTOR_DIMENSION: String(EMBEDDED_DIMENSIONS),
    };
    const ask = async ({ fetch }: TestGateway, text: string) => {
      const messages = [{ role: 'user', content: text }];
      const answer = await fetch('/v1/chat/completions', { json: { model: 'simulated-small', messages } });
      expect(answer.status, await answer.text()).toBe(200);
      return answer.headers.get('x-cache');
    };
    let running = await startTestGateway({ dataDir, simulated: false, env });
    try {
      await modelsListed(running, 2);
      expect(await ask(running, 'topic=1 angle=0')).toBe('MISS');
      await expect.poll(async () => (await db.query('SELECT 1 FROM chancery_semantic_cache')).rows.length).toBe(1);
      expect(await ask(running, 'topic=1 angle=9')).toBe('HIT (semantic)');
      await running.close();
      running = await startTestGateway({ dataDir, simulated: false, env });
      await modelsListed(running, 2);
      expect(await ask(running, 'topic=1 angle=8')).toBe('HIT (semantic)');
      const recorded = 'types=cache.stored,cache.vector_stored,cache.hit';
      const types = (await eventsUntil(running, recorded, ({ type }) => type === 'cache.hit')).map(({ type }) => type);
      expect(types).toEqual(['cache.stored', 'cache.hit']);
      await running.close();
      running = await startTestGateway({
        dataDir,
        simulated: false,
        env: { ...env, SEMANTIC_CACHE_PGVECTOR_URL: 'postgres://postgres:a@127.0.0.1:1/postgres' },
      });
      await modelsListed(running, 2);
      expect(await ask(running, 'topic=1 angle=7')).toBe('MISS');
      expect(await ask(running, 'topic=1 angle=7')).toBe('HIT (exact)');
    } finally {
      await running.close();
      await provider.close();
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });

  it('gives no request an answer of another partition, for any answer of the server', async () => {
    await db.query('DELETE FROM chancery_semantic_cache');
    const running = await startTestGateway({
      env: {
        ...(await embedder.env()),
        ...{ SEMANTIC_CACHE_VECTOR_STORE_TYPE: 'pgvector', SEMANTIC_CACHE_PGVECTOR_URL: url },
        SEMANTIC_CACHE_PGVECTOR_DIMENSION: String(EMBEDDED_DIMENSIONS),
      },
    });
    const ask = async (system: string, text: string) => {
      const messages = [
        { role: 'system', content: system },
        { role: 'user', content: text },
      ];
      const answer = await running.fetch('/v1/chat/completions', { json: { model: 'simulated-small', messages } });
      expect(answer.status, await answer.text()).toBe(200);
      return answer.headers.get('x-cache');
    };
    const rows = async () =>
      (await db.query<{ partition: string }>('SELECT partition FROM chancery_semantic_cache')).rows;
    try {
      await modelsListed(running, 2);
      expect(await ask('one', 'topic=1 angle=0')).toBe('MISS');
      await expect.poll(async () => (await rows()).length).toBe(1);
      const [first] = await rows();
      expect(await ask('other', 'topic=2 angle=0')).toBe('MISS');
      await expect.poll(async () => (await rows()).length).toBe(2);
      const other = (await rows()).find(({ partition }) => partition !== first?.partition);
      await db.query('UPDATE chancery_semantic_cache SET partition = $1', [other?.partition]);
      expect(await ask('other', 'topic=1 angle=5')).toBe('MISS');
      const zeros = JSON.stringify(Array.from({ length: EMBEDDED_DIMENSIONS }, () => 0));
      await db.query('UPDATE chancery_semantic_cache SET embedding = $1::vector', [zeros]);
      expect(await ask('other', 'topic=3 angle=0')).toBe('MISS');
      const purged = await running.fetch('/admin/cache/purge', { json: { all: true } });
      expect(purged.status, await purged.text()).toBe(200);
      await expect.poll(async () => (await rows()).length).toBe(0);
    } finally {
      await running.close();
    }
  });
});
