/** Parses an HTTP request of ClickHouse's interface: user, query, settings and parameters. */
import type { IncomingMessage } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { fromCompressedBlocks } from './compressed-blocks.ts';
import { decoderOf } from './content-encoding.ts';
import { type ClickHouseException, clickHouseError } from './embedded-clickhouse.ts';

export interface ClickHouseRequest {
  readonly method: string;
  readonly path: string;
  readonly user: string;
  readonly password: string;
  /** The query in the URL; the body is appended to it. */
  readonly query: string;
  readonly database: string | undefined;
  readonly defaultFormat: string | undefined;
  readonly queryId: string | undefined;
  /** Whether errors at the end of a result must be answered with a status. */
  readonly waitEndOfQuery: boolean;
  /** The encodings that the client accepts; undefined unless it enables encoded answers. */
  readonly acceptEncoding: string | undefined;
  /** Whether answer and body are in ClickHouse's own compressed blocks. */
  readonly blocks: { readonly answer: boolean; readonly body: boolean };
  /** The session in the request, with its options. */
  readonly session: RequestedSession | undefined;
  readonly settings: ReadonlyMap<string, string>;
  readonly parameters: ReadonlyMap<string, string>;
}

type RequestedSession = Omit<SessionOf, 'user'>;

/** Settings of ClickHouse's HTTP interface; the engine does not have them. */
const ofHttp = new Set([
  'buffer_size',
  'cancel_http_readonly_queries_on_client_close',
  'client_protocol_version',
  'close_session',
  'compress',
  'decompress',
  'enable_http_compression',
  'http_headers_progress_interval_ms',
  'http_native_compression_disable_checksumming_on_decompress',
  'http_response_buffer_size',
  'http_wait_end_of_query',
  'http_write_exception_in_output_format',
  'http_zlib_compression_level',
  'quota_key',
  'role',
  'send_progress_in_http_headers',
  'session_check',
  'session_timeout',
  'stacktrace',
]);

/** @throws ClickHouseException for an unsupported option */
export function readRequest(request: IncomingMessage): ClickHouseRequest {
  const url = new URL(request.url ?? '/', 'http://localhost');
  const settings = new Map<string, string>();
  const parameters = new Map<string, string>();
  const own = new Map<string, string>();
  for (const [name, value] of url.searchParams) {
    if (name.startsWith('param_')) parameters.set(name.slice('param_'.length), value);
    else if (known.has(name)) own.set(name, value);
    else if (!ofHttp.has(name)) settings.set(name, value);
  }
  if ((request.headers['content-type'] ?? '').startsWith('multipart/form-data')) {
    throw unsupported('external tables and parameters as multipart/form-data');
  }
  const flag = (name: string) => ['1', 'true'].includes(url.searchParams.get(name) ?? '');
  return {
    method: request.method ?? 'GET',
    path: url.pathname,
    ...credentials(request, own),
    query: own.get('query') ?? '',
    database: own.get('database') ?? header(request, 'x-clickhouse-database'),
    defaultFormat: header(request, 'x-clickhouse-format') ?? own.get('default_format'),
    queryId: own.get('query_id'),
    waitEndOfQuery: flag('wait_end_of_query') || flag('http_wait_end_of_query'),
    acceptEncoding: flag('enable_http_compression') ? header(request, 'accept-encoding') : undefined,
    blocks: { answer: flag('compress'), body: flag('decompress') },
    session: sessionIn(url.searchParams),
    settings,
    parameters,
  };
}

const known = new Set([
  'query',
  'database',
  'default_format',
  'query_id',
  'session_id',
  'user',
  'password',
  'wait_end_of_query',
]);

function sessionIn(parameters: URLSearchParams): RequestedSession | undefined {
  const id = parameters.get('session_id') ?? '';
  if (id === '') return undefined;
  const timeoutSeconds = parameters.get('session_timeout') ?? undefined;
  return { id, timeoutSeconds, mustExist: parameters.get('session_check') === '1' };
}

function credentials(
  request: IncomingMessage,
  own: ReadonlyMap<string, string>,
): { readonly user: string; readonly password: string } {
  const user = header(request, 'x-clickhouse-user');
  const password = header(request, 'x-clickhouse-key');
  if (user !== undefined || password !== undefined) return { user: user ?? 'default', password: password ?? '' };
  const basic = /^Basic (.+)$/i.exec(header(request, 'authorization') ?? '')?.[1];
  if (basic !== undefined) {
    const [name = '', ...rest] = Buffer.from(basic, 'base64').toString().split(':');
    return { user: name, password: rest.join(':') };
  }
  return { user: own.get('user') ?? 'default', password: own.get('password') ?? '' };
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

export function unsupported(what: string): ClickHouseException {
  return clickHouseError(48, 'NOT_IMPLEMENTED', `not supported: ${what}`);
}

/** The whole body, decompressed. @throws ClickHouseException when it is larger than `maxBytes`, or cannot be read */
export async function readWholeBody(
  request: IncomingMessage,
  { blocks }: Pick<ClickHouseRequest, 'blocks'>,
  maxBytes: number,
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of decompressed(request)) {
    bytes += piece.length;
    if (bytes > maxBytes) {
      throw clickHouseError(223, 'QUERY_IS_TOO_LARGE', `the body has more than ${maxBytes} bytes`);
    }
    pieces.push(piece);
  }
  const body = Buffer.concat(pieces);
  return blocks.body ? fromCompressedBlocks(body, maxBytes) : body;
}

function decompressed(request: IncomingMessage): Readable {
  const stream = decoderOf(header(request, 'content-encoding'));
  if (stream === undefined) return request;
  return pipeline(request, stream, () => {});
}

/** The format in the query's final clause, as in `… FORMAT JSON`. Only for the writer's queries: it can be slow. */
export function formatIn(sql: string): string | undefined {
  return /\bFORMAT\s+([A-Za-z]\w*)\s*(?:SETTINGS\s[^;]*)?;?\s*$/i.exec(sql)?.[1];
}

/** The first word, in lower case. Only for the writer's queries, which begin with it. */
export function firstWord(sql: string): string {
  return (/^\s*(\w+)/.exec(sql)?.[1] ?? '').toLowerCase();
}

/** Without semicolons and whitespace at the end. */
export function trimmed(sql: string): string {
  let end = sql.length;
  while (end > 0 && /[\s;]/.test(sql.charAt(end - 1))) end -= 1;
  return sql.slice(0, end);
}

export interface InsertText {
  readonly table: string;
  readonly columns: readonly string[] | undefined;
  readonly format: string;
}

const name = '(?:`[^`\\\\]+`|"[^"\\\\]+"|\\w+)';
const insertPattern = new RegExp(
  `^\\s*INSERT\\s+INTO\\s+(?:TABLE\\s+)?(${name}(?:\\s*\\.\\s*${name})?)\\s*(?:\\(([^()]*)\\))?\\s*FORMAT\\s+(\\w+)\\s*;?\\s*$`,
  'i',
);

/** The parts of `INSERT INTO table (columns) FORMAT format`; undefined for any other query. */
export function insertIn(sql: string): InsertText | undefined {
  const found = insertPattern.exec(sql);
  const [, table, columns, format] = found ?? [];
  if (table === undefined || format === undefined) return undefined;
  return {
    table: table.split('.').map(plain).join('.'),
    columns: columns === undefined || columns.trim() === '' ? undefined : columns.split(',').map(plain),
    format,
  };
}

function plain(quoted: string): string {
  return quoted.trim().replace(/^["`]|["`]$/g, '');
}

/**
 * Sessions of ClickHouse's HTTP interface, for clients that name one with every request. A reader changes nothing that
 * a later query could see, so a session consists of a name, an owner and an end. As in ClickHouse, its queries are
 * executed one at a time, and each one restarts the timeout.
 */
interface SessionOf {
  readonly user: string;
  readonly id: string;
  /** As the client sent it; default 60. */
  readonly timeoutSeconds: string | undefined;
  /** Whether the session must already exist. */
  readonly mustExist: boolean;
}

interface Session {
  /** Milliseconds of the monotonic clock; infinite during a query. */
  endsAt: number;
  isBusy: boolean;
}

const USUAL_SECONDS = 60;
const MOST_SECONDS = 3600;
/** Of more sessions, the least recently used one is removed. `max` would allocate them at once. */
const MAX_SESSIONS = 10_000;
const LONGEST_ID = 256;

export class ClickHouseSessions {
  readonly #sessions = new LRUCache<string, Session>({ maxSize: MAX_SESSIONS, sizeCalculation: () => 1 });
  readonly #now: () => number;

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Begins a query of the session.
   * @returns a function to call when the query has ended
   * @throws ClickHouseException 372 when it must exist and does not, 373 while another query of it runs, 374 for a
   *   timeout that is not a number of seconds up to an hour
   */
  enter({ user, id, timeoutSeconds, mustExist }: SessionOf): () => void {
    const seconds = secondsIn(timeoutSeconds);
    if (id.length > LONGEST_ID) {
      throw clickHouseError(36, 'BAD_ARGUMENTS', `the id of a session has at most ${LONGEST_ID} characters`);
    }
    const key = JSON.stringify([user, id]);
    const found = this.#sessions.get(key);
    const known = found !== undefined && found.endsAt > this.#now() ? found : undefined;
    if (known === undefined && mustExist) {
      throw clickHouseError(372, 'SESSION_NOT_FOUND', `Session ${id} not found`);
    }
    if (known?.isBusy) {
      throw clickHouseError(373, 'SESSION_IS_LOCKED', `Session ${id} is locked by a concurrent client`);
    }
    const session: Session = { endsAt: Number.POSITIVE_INFINITY, isBusy: true };
    this.#sessions.set(key, session);
    return () => {
      session.isBusy = false;
      session.endsAt = this.#now() + seconds * 1000;
    };
  }
}

function secondsIn(timeout: string | undefined): number {
  if (timeout === undefined || timeout === '') return USUAL_SECONDS;
  const seconds = Number(timeout);
  if (Number.isInteger(seconds) && seconds > 0 && seconds <= MOST_SECONDS) return seconds;
  throw clickHouseError(
    374,
    'INVALID_SESSION_TIMEOUT',
    `Session timeout '${timeout.slice(0, 32)}' is not a number of seconds from 1 to ${MOST_SECONDS}`,
  );
}
