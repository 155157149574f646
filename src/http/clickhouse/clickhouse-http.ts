/**
 * ClickHouse's HTTP interface for the embedded engine: the part that `@clickhouse/client`, `curl` and Grafana's data
 * source use. For loopback only: passwords are sent unencrypted.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { promisify } from 'node:util';
import {
  type ClickHouseRequest,
  ClickHouseSessions,
  firstWord,
  formatIn,
  type InsertText,
  insertIn,
  readRequest,
  readWholeBody,
  trimmed,
  unsupported,
} from './clickhouse-request.ts';
import { inCompressedBlocks } from './compressed-blocks.ts';
import { encodingFor } from './content-encoding.ts';
import {
  ClickHouseException,
  type EmbeddedClickHouse,
  type EmbeddedConnection,
  exceptionOf,
  type QueryResult,
} from './embedded-clickhouse.ts';
import { contentTypeOf, isStreamable, rawFormat } from './formats.ts';
import { LONGEST_QUERY } from './normal-form.ts';
import { preempted, questionOf, type RecordQuery, readerRequest, recordQuery, wholeQuery } from './reader-request.ts';
import { type QueryTurn, QueryTurns, UnreadAnswers, type UnreadLimits } from './turns.ts';
import { authenticated, largeTurns, type ReaderLimits, type User } from './users.ts';

/** The HTTP status of a ClickHouse error, as in ClickHouse's own HTTP interface. */
const byStatus: Readonly<Record<number, readonly number[]>> = {
  400: [6, 26, 27, 38, 41, 43, 53, 62, 69, 72, 117, 130, 131, 163, 190, 456, 457, 536],
  401: [194],
  403: [192, 193, 497, 516],
  404: [16, 46, 47, 50, 56, 60, 63, 73, 78, 81, 113, 115, 123, 139],
  408: [159],
  413: [223],
  501: [48],
  503: [209, 439],
};

const statuses = new Map(
  Object.entries(byStatus).flatMap(([status, codes]) => codes.map((code) => [code, Number(status)] as const)),
);

function httpStatusOf(code: number): number {
  return statuses.get(code) ?? 500;
}

export interface ClickHouseHttpOptions {
  readonly engine: EmbeddedClickHouse;
  readonly users: readonly User[];
  /** Limit of inserts and the writer's queries. Default 256 MiB. */
  readonly maxBodyBytes?: number;
  /** Limits of readers' answers that clients have not read yet. Default 192 MiB, and a minute for each. */
  readonly unread?: UnreadLimits;
  /** Records a reader's query; the query is executed once this has resolved. Default: no query can be recorded. */
  readonly record?: RecordQuery;
  /** Called with errors of this interface, not with those of ClickHouse. */
  readonly onError?: (error: unknown) => void;
}

const MIB = 1024 * 1024;
const SILENT_MS = 150_000;
const MEMORY_LIMIT_EXCEEDED = 241;
/** Clients send parameters in the address: the gateway's own exports send lists of 2,000 ids. */
const LONGEST_HEAD = 256 * 1024;

async function cannotRecord(): Promise<never> {
  throw new Error('this process has no log to write to');
}

export function createClickHouseHttp(options: ClickHouseHttpOptions): Server {
  const { engine, users, maxBodyBytes = 256 * MIB, record = cannotRecord, onError = () => {} } = options;
  const { unread = { bytes: 192 * MIB, ms: 60_000 } } = options;
  const sessions = new ClickHouseSessions();
  const places = new Map(
    users.flatMap(({ limits }) => {
      if (limits === undefined) return [];
      const [turns, large] = [new QueryTurns(limits.turns), new QueryTurns(largeTurns)];
      return [[limits.turns, { turns, large, unread: new UnreadAnswers(unread) }]];
    }),
  );

  async function answer(request: IncomingMessage, reply: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?', 1)[0];
    if (path === '/ping' || path === '/replicas_status') return plainly(reply, 200, 'Ok.\n');
    const clickHouseRequest = readRequest(request);
    if (clickHouseRequest.path !== '/') return plainly(reply, 404, `There is no handle ${clickHouseRequest.path}\n`);
    if (!['GET', 'HEAD', 'POST'].includes(clickHouseRequest.method)) {
      reply.setHeader('Allow', 'GET, HEAD, POST');
      return plainly(reply, 405, 'Only GET and POST are supported\n');
    }
    if (clickHouseRequest.method !== 'POST' && clickHouseRequest.query === '') return plainly(reply, 200, 'Ok.\n');
    reply.setHeader('X-ClickHouse-Server-Display-Name', 'chancery');
    reply.setHeader('X-ClickHouse-Query-Id', clickHouseRequest.queryId ?? randomUUID());
    reply.setHeader('X-ClickHouse-Timezone', 'UTC');
    const user = authenticated(users, clickHouseRequest.user, clickHouseRequest.password);
    const longest = user.limits === undefined ? maxBodyBytes : LONGEST_QUERY;
    const body =
      clickHouseRequest.method === 'POST' ? await readWholeBody(request, clickHouseRequest, longest) : Buffer.alloc(0);
    const gone = new AbortController();
    reply.once('close', () => gone.abort());
    if (user.limits === undefined && clickHouseRequest.session !== undefined) {
      throw unsupported('sessions of a writing user');
    }
    if (user.limits === undefined) await write(clickHouseRequest, body, reply, gone.signal);
    else await read(clickHouseRequest, body, user, user.limits, reply, gone.signal);
  }

  async function write(
    clickHouseRequest: ClickHouseRequest,
    body: Buffer,
    reply: ServerResponse,
    gone: AbortSignal,
  ): Promise<void> {
    const insert = clickHouseRequest.query === '' ? undefined : insertIn(clickHouseRequest.query);
    const sql = insert === undefined ? wholeQuery(clickHouseRequest, body) : clickHouseRequest.query;
    const { settings, parameters, database } = clickHouseRequest;
    const role = 'writer';
    const connection = engine.connect({
      settings,
      parameters,
      database,
      role,
      readOnly: clickHouseRequest.method !== 'POST',
    });
    await closedAfter(connection, [gone], async () => {
      if (insert !== undefined && rawFormat(insert.format) !== undefined) {
        return takeIn(insert, body, connection, reply);
      }
      const format = formatIn(sql) ?? clickHouseRequest.defaultFormat ?? 'TabSeparated';
      return run(
        { text: withData(sql, insert, body), format, streams: isStreamable(format) && selects.has(firstWord(sql)) },
        clickHouseRequest,
        connection,
        reply,
      );
    });
  }

  async function read(
    clickHouseRequest: ClickHouseRequest,
    body: Buffer,
    user: User,
    limits: ReaderLimits,
    reply: ServerResponse,
    gone: AbortSignal,
  ): Promise<void> {
    const sql = questionOf(clickHouseRequest, body, user);
    const { format, result } = await resultOf(sql, clickHouseRequest, user, limits, gone);
    const size = result.bytes.length;
    const leave = () => void reply.destroy();
    const sendResult = () => sendWhole(result, format, clickHouseRequest, reply);
    await (places.get(limits.turns)?.unread.during(size, leave, sendResult) ?? sendResult());
  }

  /** The result of a reader's query. The query's place is free before the client reads the result. */
  async function resultOf(
    sql: string,
    clickHouseRequest: ClickHouseRequest,
    user: User,
    limits: ReaderLimits,
    gone: AbortSignal,
  ): Promise<{ readonly format: string; readonly result: QueryResult }> {
    const { session } = clickHouseRequest;
    const leaveSession = session === undefined ? () => {} : sessions.enter({ ...session, user: user.name });
    const place = places.get(limits.turns);
    let turn: QueryTurn | undefined;
    try {
      turn = await place?.turns.enter(gone);
      await recordQuery(record, user, sql, clickHouseRequest);
      const { query, connect, attempts } = await readerRequest(engine, sql, clickHouseRequest, user, limits);
      for (const [at, { settings, isLarge }] of attempts.entries()) {
        if (isLarge) {
          turn?.end();
          turn = await place?.large.enter(gone);
        }
        const connection = engine.connect({ ...connect, settings });
        const ends = turn === undefined ? [gone] : [gone, turn.preempted];
        try {
          // Not streamed: the engine would plan it and execute its scalar subqueries on the thread of all requests.
          const result = await closedAfter(connection, ends, () => connection.query(query.text, query.format));
          return { format: query.format, result };
        } catch (error) {
          if (turn?.preempted.aborted === true) throw preempted(isLarge ? largeTurns : limits.turns);
          const needsMore = exceptionOf(error).code === MEMORY_LIMIT_EXCEEDED && at + 1 < attempts.length;
          if (!needsMore || gone.aborted) throw error;
        }
      }
      throw new Error('a query without an attempt');
    } finally {
      turn?.end();
      leaveSession();
    }
  }

  const server = createServer({ maxHeaderSize: LONGEST_HEAD }, (request, reply) => {
    answer(request, reply).catch((error: unknown) => {
      if (!(error instanceof ClickHouseException)) onError(error);
      refuse(reply, exceptionOf(error));
    });
  });
  server.keepAliveTimeout = 30_000;
  // Longer than any query can take without sending bytes.
  server.setTimeout(SILENT_MS);
  return server;
}

/** Closes the connection after the work, or earlier when one of the signals is aborted. */
async function closedAfter<Result>(
  connection: EmbeddedConnection,
  ends: readonly AbortSignal[],
  work: () => Promise<Result>,
): Promise<Result> {
  const close = () => connection.close();
  for (const end of ends) end.addEventListener('abort', close, { once: true });
  try {
    return await work();
  } finally {
    for (const end of ends) end.removeEventListener('abort', close);
    close();
  }
}

/** The query with the body's data, for an insert in a format that ClickHouse reads as part of the query. */
function withData(sql: string, insert: InsertText | undefined, body: Buffer): string {
  return insert === undefined ? sql : `${trimmed(sql)}\n${body.toString()}`;
}

async function takeIn(
  insert: InsertText,
  values: Buffer,
  connection: EmbeddedConnection,
  reply: ServerResponse,
): Promise<void> {
  const format = rawFormat(insert.format);
  if (format === undefined) return;
  const { table, columns } = insert;
  const { rowsWritten, bytesWritten, elapsedSeconds } = await connection.insert({ table, columns, format, values });
  reply.setHeader(
    'X-ClickHouse-Summary',
    summary({ written_rows: rowsWritten, written_bytes: bytesWritten }, elapsedSeconds),
  );
  plainly(reply, 200, '');
}

async function run(
  { text, format, streams }: { readonly text: string; readonly format: string; readonly streams: boolean },
  clickHouseRequest: ClickHouseRequest,
  connection: EmbeddedConnection,
  reply: ServerResponse,
): Promise<void> {
  if (!streams || clickHouseRequest.waitEndOfQuery) {
    return sendWhole(await connection.query(text, format), format, clickHouseRequest, reply);
  }
  // Waits for the first piece: until then, an error can be answered with a status.
  const pieces = connection.stream(text, format)[Symbol.asyncIterator]();
  const first = await pieces.next();
  reply.setHeader('X-ClickHouse-Summary', summary({}, 0));
  const tag = randomBytes(8).toString('hex');
  reply.setHeader('X-ClickHouse-Exception-Tag', tag);
  await send(reply, clickHouseRequest, format, Readable.from(rest(first, pieces, tag), { objectMode: false }));
}

async function sendWhole(
  { bytes, rows, elapsedSeconds }: QueryResult,
  format: string,
  clickHouseRequest: ClickHouseRequest,
  reply: ServerResponse,
): Promise<void> {
  // A lower bound of the rows and bytes read.
  const counted = { read_rows: rows, read_bytes: bytes.length, result_rows: rows, result_bytes: bytes.length };
  reply.setHeader('X-ClickHouse-Summary', summary(counted, elapsedSeconds));
  await send(reply, clickHouseRequest, format, Readable.from([bytes], { objectMode: false }));
}

/** An error in the middle of a result is sent in ClickHouse's format, in place of the remaining rows. */
async function* rest(
  first: IteratorResult<Uint8Array>,
  pieces: AsyncIterator<Uint8Array>,
  tag: string,
): AsyncIterable<Uint8Array> {
  try {
    for (let piece = first; !piece.done; piece = await pieces.next()) yield piece.value;
  } catch (error) {
    const { message } = exceptionOf(error);
    const text = `${message.trimEnd()}\n`;
    yield Buffer.from(`\r\n__exception__\r\n${tag}\r\n${text}${Buffer.byteLength(text)} ${tag}\r\n__exception__\r\n`);
  } finally {
    await pieces.return?.();
  }
}

/** chDB streams only the results of these statements. */
const selects = new Set(['select', 'with', 'from']);

const piped = promisify(pipeline);

async function send(
  reply: ServerResponse,
  clickHouseRequest: ClickHouseRequest,
  format: string,
  body: Readable,
): Promise<void> {
  reply.statusCode = 200;
  reply.setHeader('Content-Type', contentTypeOf(format));
  reply.setHeader('X-ClickHouse-Format', format);
  const sent = clickHouseRequest.blocks.answer ? Readable.from(inCompressedBlocks(body), { objectMode: false }) : body;
  const encoding = encodingFor(clickHouseRequest.acceptEncoding);
  try {
    if (encoding !== undefined) {
      reply.setHeader('Content-Encoding', encoding.name);
      await piped(sent, encoding.encoder, reply);
    } else await piped(sent, reply);
  } catch (error) {
    // A disconnected client receives no answer.
    if (!reply.destroyed) throw error;
  }
}

function refuse(reply: ServerResponse, { code, message }: ClickHouseException): void {
  if (reply.headersSent || reply.destroyed) return void reply.destroy();
  reply.setHeader('X-ClickHouse-Exception-Code', String(code));
  reply.removeHeader('Content-Encoding');
  if (code === 516) reply.setHeader('WWW-Authenticate', 'Basic realm="ClickHouse server HTTP API"');
  // The unread rest of the body must not be parsed as the next request.
  reply.setHeader('Connection', 'close');
  plainly(reply, httpStatusOf(code), `${message.trimEnd()}\n`);
}

function plainly(reply: ServerResponse, status: number, text: string): void {
  reply.statusCode = status;
  reply.setHeader('Content-Type', 'text/plain; charset=UTF-8');
  reply.end(text);
}

/** Numbers as text, as ClickHouse sends them. */
function summary(counted: Readonly<Record<string, number>>, elapsedSeconds: number): string {
  const zeros = {
    read_rows: 0,
    read_bytes: 0,
    written_rows: 0,
    written_bytes: 0,
    total_rows_to_read: 0,
    result_rows: 0,
    result_bytes: 0,
  };
  const all = { ...zeros, ...counted, elapsed_ns: Math.round(elapsedSeconds * 1e9) };
  return JSON.stringify(Object.fromEntries(Object.entries(all).map(([name, value]) => [name, String(value)])));
}
