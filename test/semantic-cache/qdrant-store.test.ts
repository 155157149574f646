import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import { QdrantStore } from '../../src/commands/semantic-cache/qdrant-store.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import { at, describeVectorStore, entry, query, randomDigest } from './vector-store-contract.ts';

interface Received {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly key: string | string[] | undefined;
  readonly body: unknown;
}

let received: Received[] = [];
let answers: Record<string, [status: number, body: unknown]> = {};
const server = createServer(async (request, response) => {
  const text = (await request.toArray()).join('');
  const { method, url, headers } = request;
  received.push({ method, url, key: headers['api-key'], body: text === '' ? undefined : JSON.parse(text) });
  const [status, body] = answers[`${method} ${url}`] ?? [200, { result: true, status: 'ok', time: 0 }];
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
});
let url = '';
const stores: QdrantStore[] = [];
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  for (const store of stores) await store.close();
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  received = [];
  answers = { [`GET ${path}/exists`]: [200, { result: { exists: true } }] };
});

const path = '/collections/answers';

function open(change: object = {}): QdrantStore {
  const options = {
    url,
    collection: 'answers',
    apiKey: 'a-key',
    proxyOf: withoutProxy,
    timeoutMs: 5000,
    now: () => 1000,
    ...change,
  };
  const store = new QdrantStore(options);
  stores.push(store);
  return store;
}

const uuidOf = (digest: string) =>
  [
    [0, 8],
    [8, 12],
    [12, 16],
    [16, 20],
    [20, 32],
  ]
    .map(([from, to]) => digest.slice(from, to))
    .join('-');

const sent = () => received.map(({ method, url: to, body }) => ({ method, to, body }));

describe('the requests of QdrantStore', () => {
  it('create the collection with the dimensions of the first vector, and its indexes', async () => {
    answers[`GET ${path}/exists`] = [200, { result: { exists: false } }];
    const added = entry({ vector: at(10) });
    const store = open();
    await store.add(added);
    await store.add(added);
    const payload = { partition: 'p', digest: added.digest, expires_at: 2000 };
    const points = [{ id: uuidOf(added.digest), vector: [...added.vector], payload }];
    const upsert = { method: 'PUT', to: `${path}/points?wait=true`, body: { points } };
    expect(sent()).toEqual([
      { method: 'GET', to: `${path}/exists`, body: undefined },
      { method: 'PUT', to: path, body: { vectors: { size: 8, distance: 'Cosine' } } },
      { method: 'PUT', to: `${path}/index?wait=true`, body: { field_name: 'partition', field_schema: 'keyword' } },
      { method: 'PUT', to: `${path}/index?wait=true`, body: { field_name: 'expires_at', field_schema: 'integer' } },
      upsert,
      upsert,
    ]);
    expect(new Set(received.map(({ key }) => key))).toEqual(new Set(['a-key']));
  });

  it('search one partition for points that have not expired', async () => {
    const digest = randomDigest();
    const point = { id: uuidOf(digest), version: 3, score: 1.0000001, payload: { digest } };
    answers[`POST ${path}/points/query`] = [200, { result: { points: [point] }, status: 'ok' }];
    expect(await open().nearest(query({ vector: at(10) }))).toEqual({ digest, similarity: 1 });
    expect(sent()[1]).toEqual({
      method: 'POST',
      to: `${path}/points/query`,
      body: {
        query: [...at(10)],
        filter: {
          must: [
            { key: 'partition', match: { value: 'p' } },
            { key: 'expires_at', range: { gt: 1000 } },
          ],
        },
        score_threshold: 0.92,
        limit: 1,
        with_payload: ['digest'],
      },
    });
    answers[`POST ${path}/points/query`] = [200, { result: { points: [{ ...point, score: 0.91 }] } }];
    expect(await open().nearest(query())).toBeUndefined();
    answers[`POST ${path}/points/query`] = [200, { result: { points: [] } }];
    expect(await open().nearest(query())).toBeUndefined();
  });

  it('delete by digest, all, and what has expired', async () => {
    let now = 1000;
    const store = open({ url: `${url}/behind/a/proxy/`, apiKey: undefined, now: () => now });
    const proxied = `/behind/a/proxy${path}`;
    answers[`GET ${proxied}/exists`] = [200, { result: { exists: true } }];
    await store.remove(['0'.repeat(64), 'ab'.repeat(32)]);
    await store.purge();
    now = 61_000;
    await store.add(entry());
    const to = `${proxied}/points/delete?wait=true`;
    expect(sent().filter(({ method }) => method === 'POST')).toEqual([
      {
        method: 'POST',
        to,
        body: { points: ['00000000-0000-0000-0000-000000000000', 'abababab-abab-abab-abab-abababababab'] },
      },
      { method: 'POST', to, body: { filter: {} } },
      { method: 'POST', to, body: { filter: { must: [{ key: 'expires_at', range: { lte: 61_000 } }] } } },
    ]);
    expect(received.map(({ key }) => key)).toEqual(received.map(() => undefined));
    answers[`POST ${to}`] = [404, { status: { error: 'no such collection' } }];
    await store.purge();
  });

  it('fail with the status alone, and are sent again later', async () => {
    answers[`GET ${path}/exists`] = [403, { status: { error: 'the key a-key is wrong' } }];
    const store = open();
    const failed = await store.nearest(query()).catch((error: Error) => error.message);
    expect(failed).toBe('Qdrant answered GET /exists with 403');
    answers[`GET ${path}/exists`] = [200, { result: { exists: false } }];
    answers[`PUT ${path}`] = [409, { status: { error: 'exists already' } }];
    await store.add(entry());
    expect(received.at(-1)?.url).toBe(`${path}/points?wait=true`);
  });

  it.each(['', 'a/b', '../x', 'a b', 'a?b'])('refuse the collection %j', (collection) => {
    expect(() => open({ collection })).toThrow('no plain name of a collection');
  });
});

const server_url = process.env['QDRANT_URL'];
if (server_url === undefined) test.skip('QdrantStore on a server: set QDRANT_URL to run these tests');
else {
  const collection = `chancery-test-${randomUUID()}`;
  describeVectorStore('QdrantStore on a server', async () =>
    open({ url: server_url, apiKey: process.env['QDRANT_API_KEY'], collection }),
  );
}
