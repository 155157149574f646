/** Vectors in a collection of Qdrant, over its REST API (1.10 or newer). The collection is created when missing. */
import { z } from 'zod';
import { parseExactly } from '../../json/exact-json.ts';
import type { ProxyOf } from '../../providers/proxies.ts';
import { createTransport, type Transport } from '../../providers/transport.ts';
import type { Neighbour, StoredVector, VectorQuery, VectorStore } from './vector-store.ts';

export interface QdrantOptions {
  readonly url: string;
  readonly collection: string;
  readonly apiKey: string | undefined;
  readonly proxyOf: ProxyOf;
  /** Of each request. */
  readonly timeoutMs: number;
  now(): number;
}

export const collectionName = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}$/;

const CONNECTIONS = 16;
const MAX_ANSWER_BYTES = 1024 * 1024;
const SWEEP_EVERY_MS = 60_000;

const exists = z.object({ result: z.object({ exists: z.boolean() }) });
const found = z.object({
  result: z.object({
    points: z.array(z.object({ score: z.number(), payload: z.object({ digest: z.string() }) })),
  }),
});

/**
 * The partition is a keyword index of the payload. Points that have expired are deleted once a minute, by the gateway
 * that adds one.
 */
export class QdrantStore implements VectorStore {
  readonly #options: QdrantOptions;
  readonly #transport: Transport;
  readonly #path: string;
  #ready: Promise<void> | undefined;
  #sweptAt: number;

  /** @throws Error for a name that is no plain name of a collection */
  constructor(options: QdrantOptions) {
    const { url, collection, timeoutMs, proxyOf } = options;
    if (!collectionName.test(collection)) throw new Error(`'${collection}' is no plain name of a collection`);
    const { origin, pathname } = new URL(url);
    const limit = { ms: timeoutMs, setting: 'limit of the semantic cache' };
    this.#options = options;
    this.#path = `${pathname.replace(/\/+$/, '')}/collections/${collection}`;
    this.#transport = createTransport({
      ...{ provider: 'Qdrant', origin, proxyOf, connections: CONNECTIONS },
      timeouts: { connectMs: timeoutMs, headers: limit, idle: limit },
    });
    this.#sweptAt = options.now();
  }

  async add({ digest, partition, vector, expiresAt }: StoredVector): Promise<void> {
    await this.#created(vector.length);
    const payload = { partition, digest, expires_at: expiresAt };
    await this.#send('PUT', '/points?wait=true', { points: [{ id: idOf(digest), vector: [...vector], payload }] });
    const now = this.#options.now();
    if (now - this.#sweptAt < SWEEP_EVERY_MS) return;
    this.#sweptAt = now;
    await this.#delete({ filter: { must: [{ key: 'expires_at', range: { lte: now } }] } });
  }

  async nearest({ partition, vector, threshold, now }: VectorQuery): Promise<Neighbour | undefined> {
    await this.#created(vector.length);
    const answer = await this.#send('POST', '/points/query', {
      query: [...vector],
      filter: {
        must: [
          { key: 'partition', match: { value: partition } },
          { key: 'expires_at', range: { gt: now } },
        ],
      },
      score_threshold: threshold,
      limit: 1,
      with_payload: ['digest'],
    });
    const [nearest] = found.parse(answer).result.points;
    if (nearest === undefined || nearest.score < threshold) return undefined;
    return { digest: nearest.payload.digest, similarity: Math.min(nearest.score, 1) };
  }

  remove(digests: readonly string[]): Promise<void> {
    return this.#delete({ points: digests.map(idOf) });
  }

  /** An empty filter matches every point. */
  purge(): Promise<void> {
    return this.#delete({ filter: {} });
  }

  close(): Promise<void> {
    return this.#transport.close('now');
  }

  /** A collection that does not exist has nothing to remove. */
  async #delete(which: object): Promise<void> {
    await this.#send('POST', '/points/delete?wait=true', which, [404]);
  }

  #created(size: number): Promise<void> {
    this.#ready ??= this.#create(size).catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  async #create(size: number): Promise<void> {
    if (exists.parse(await this.#send('GET', '/exists')).result.exists) return;
    // 409: another gateway created it in between.
    await this.#send('PUT', '', { vectors: { size, distance: 'Cosine' } }, [409]);
    await this.#send('PUT', '/index?wait=true', { field_name: 'partition', field_schema: 'keyword' });
    await this.#send('PUT', '/index?wait=true', { field_name: 'expires_at', field_schema: 'integer' });
  }

  /** @throws Error that names the status, and nothing of the request */
  async #send(method: string, path: string, body?: object, accepted: readonly number[] = []): Promise<unknown> {
    const { apiKey, timeoutMs } = this.#options;
    const headers = ['accept', 'application/json', 'accept-encoding', 'identity'];
    if (apiKey !== undefined) headers.push('api-key', apiKey);
    if (body !== undefined) headers.push('content-type', 'application/json');
    const reply = await this.#transport.send({
      method,
      path: `${this.#path}${path}`,
      headers,
      body: body === undefined ? undefined : Buffer.from(JSON.stringify(body)),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const text = (await reply.body.bytes(MAX_ANSWER_BYTES)).toString();
    if (accepted.includes(reply.status)) return undefined;
    if (reply.status !== 200) throw new Error(`Qdrant answered ${method} ${path} with ${reply.status}`);
    return parseExactly(text);
  }
}

/** Points have UUIDs: half of the digest. */
function idOf(digest: string): string {
  return digest.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
