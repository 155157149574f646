/** Vectors in a table of PostgreSQL with the extension pgvector. Table, index and extension are created when missing. */
import type { Pool, PoolConfig } from 'pg';
import type { Neighbour, StoredVector, VectorQuery, VectorStore } from './vector-store.ts';

export interface PgvectorOptions {
  /** With its credentials. */
  readonly url: string;
  /** A name, or a schema and a name with a dot. */
  readonly table: string;
  readonly dimension: number;
  /** Of connecting, and of each statement. */
  readonly timeoutMs: number;
  now(): number;
}

export const tableName = /^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$/;

const CONNECTIONS = 8;
/** Statements that may wait for a connection. */
const MAX_WAITING = 64;
const SWEEP_EVERY_MS = 60_000;
/** Any number that other programs are unlikely to use: gateways that start together create the table one by one. */
const SETUP_LOCK = 7_460_121_337;

interface Row {
  readonly digest: string;
  readonly similarity: number;
}

/**
 * Searches are exact within a partition, by an index of partitions. Rows that have expired are deleted once a minute, by
 * the gateway that adds one.
 */
export class PgvectorStore implements VectorStore {
  readonly #options: PgvectorOptions;
  readonly #table: string;
  #pool: Promise<Pool> | undefined;
  #ready: Promise<void> | undefined;
  #sweptAt: number;

  /** Connects with the first statement. @throws Error for a name that is no plain name of a table */
  constructor(options: PgvectorOptions) {
    if (!tableName.test(options.table)) throw new Error(`'${options.table}' is no plain name of a table`);
    this.#options = options;
    this.#table = options.table
      .split('.')
      .map((name) => `"${name}"`)
      .join('.');
    this.#sweptAt = options.now();
  }

  async add({ digest, partition, vector, expiresAt }: StoredVector): Promise<void> {
    await this.#query(
      `INSERT INTO ${this.#table} (digest, partition, embedding, expires_at) VALUES ($1, $2, $3::vector, $4)
       ON CONFLICT (digest) DO UPDATE SET partition = excluded.partition, embedding = excluded.embedding,
         expires_at = excluded.expires_at`,
      [digest, partition, this.#literal(vector), Math.floor(expiresAt)],
    );
    const now = this.#options.now();
    if (now - this.#sweptAt < SWEEP_EVERY_MS) return;
    this.#sweptAt = now;
    await this.#query(`DELETE FROM ${this.#table} WHERE expires_at <= $1`, [Math.floor(now)]);
  }

  async nearest({ partition, vector, threshold, now }: VectorQuery): Promise<Neighbour | undefined> {
    const rows = await this.#query<Row>(
      `SELECT digest, 1 - (embedding <=> $2::vector) AS similarity FROM ${this.#table}
       WHERE partition = $1 AND expires_at > $3 ORDER BY embedding <=> $2::vector LIMIT 1`,
      [partition, this.#literal(vector), Math.floor(now)],
    );
    const [nearest] = rows;
    if (nearest === undefined || nearest.similarity < threshold) return undefined;
    return { digest: nearest.digest, similarity: Math.min(nearest.similarity, 1) };
  }

  async remove(digests: readonly string[]): Promise<void> {
    await this.#query(`DELETE FROM ${this.#table} WHERE digest = ANY($1)`, [digests]);
  }

  async purge(): Promise<void> {
    await this.#query(`DELETE FROM ${this.#table}`, []);
  }

  async close(): Promise<void> {
    const pool = this.#pool;
    this.#pool = undefined;
    await (await pool)?.end();
  }

  async #query<Result extends object>(text: string, values: readonly unknown[]): Promise<readonly Result[]> {
    this.#pool ??= this.#connect();
    const pool = await this.#pool;
    if (pool.waitingCount >= MAX_WAITING) throw new Error(`${MAX_WAITING} statements wait for a connection already`);
    this.#ready ??= this.#create(pool).catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    await this.#ready;
    return (await pool.query<Result>(text, [...values])).rows;
  }

  async #connect(): Promise<Pool> {
    const { url, timeoutMs } = this.#options;
    // Loaded only where it is configured.
    const { Pool: PgPool } = await import('pg');
    const config: PoolConfig = {
      connectionString: url,
      max: CONNECTIONS,
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs,
      statement_timeout: timeoutMs,
      idleTimeoutMillis: 30_000,
      allowExitOnIdle: true,
      application_name: 'chancery',
    };
    const pool = new PgPool(config);
    // The server closed an idle connection: the pool opens another one.
    pool.on('error', () => {});
    return pool;
  }

  /** Several statements in one query are one transaction. */
  async #create(pool: Pool): Promise<void> {
    const { table, dimension } = this.#options;
    const index = `${table.split('.').at(-1)?.slice(0, 40)}_partition`;
    await pool.query(
      `SELECT pg_advisory_xact_lock(${SETUP_LOCK});
       CREATE EXTENSION IF NOT EXISTS vector;
       CREATE TABLE IF NOT EXISTS ${this.#table} (
         digest text PRIMARY KEY,
         partition text NOT NULL,
         embedding vector(${dimension}) NOT NULL,
         expires_at bigint NOT NULL
       );
       CREATE INDEX IF NOT EXISTS "${index}" ON ${this.#table} (partition, expires_at);`,
    );
  }

  /** @throws Error for a vector that the column cannot hold */
  #literal(vector: Float32Array): string {
    const { dimension } = this.#options;
    if (vector.length === dimension) return `[${vector.join(',')}]`;
    throw new Error(
      `the model returns ${vector.length} dimensions, and the table has ${dimension}: set SEMANTIC_CACHE_PGVECTOR_DIMENSION, and another table`,
    );
  }
}
