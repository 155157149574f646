/**
 * Requests to the gateway's API with the key of this tab. Types come from the gateway's OpenAPI document
 * (`generated/api.d.ts`).
 */
import type { paths } from '../../generated/api';
import { basePath } from '../app/base-path.ts';
import { type QueryValue, queryOf } from '../app/router.ts';
import { visibleText } from '../content/text/hidden-characters.ts';
import { timeZone } from '../settings/time-zone.ts';
import { forgetKey, sessionKey } from './session-key.ts';

/** Paths that can be read. */
export type ReadPath = {
  [Path in keyof paths]: paths[Path] extends { get: unknown } ? Path : never;
}[keyof paths];

export type Operation<Path, Method extends string> = Path extends keyof paths
  ? Method extends keyof paths[Path]
    ? paths[Path][Method]
    : never
  : never;

type JsonOf<Response> = Response extends { content: { 'application/json': infer Json } } ? Json : never;
export type AnswerOf<Call> = Call extends { responses: infer Responses }
  ? '200' extends keyof Responses
    ? JsonOf<Responses['200']>
    : never
  : never;

/** The JSON that `GET <path>` returns. */
export type Answer<Path extends ReadPath> = AnswerOf<Operation<Path, 'get'>>;

/**
 * What the gateway, or the network, answered instead of data. Messages repeat what clients and providers sent, so hidden
 * characters are already written as marks.
 */
export class ApiError extends Error {
  /** HTTP status; 0 when the gateway could not be reached. */
  readonly status: number;
  readonly code: string;
  /** The parameter that the gateway refused. */
  readonly parameter: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  constructor(
    message: string,
    given: { status: number; code: string; parameter?: string | undefined; retryAfterSeconds?: number | undefined },
  ) {
    super(visibleText(message));
    this.status = given.status;
    this.code = visibleText(given.code);
    this.parameter = given.parameter === undefined ? undefined : visibleText(given.parameter);
    this.retryAfterSeconds = given.retryAfterSeconds;
  }
}

export interface RequestOptions {
  readonly query?: Readonly<Record<string, QueryValue>> | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Default: POST with `json`, otherwise GET. */
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE' | undefined;
  /** Sent as JSON. */
  readonly json?: unknown;
}

/** @param path with its parameters filled in. @throws ApiError, and AbortError when the signal is aborted */
export async function getAnswer<Path extends ReadPath>(
  path: Path | { readonly of: Path; readonly at: string },
  options: RequestOptions = {},
): Promise<Answer<Path>> {
  const response = await request(typeof path === 'string' ? path : path.at, options);
  let json: unknown;
  try {
    json = await response.json();
  } catch (error) {
    if (options.signal?.aborted) throw error;
  }
  // Every answer of the API is an object or a list.
  if (typeof json === 'object' && json !== null) return json as Answer<Path>;
  throw new ApiError(
    'The answer is incomplete, or not of the gateway. A proxy between this browser and the gateway may have sent it.',
    { status: 0, code: 'no_json' },
  );
}

/**
 * A successful response, for streams and files.
 * A key that is not accepted any more is removed, and the page shows why.
 * @throws ApiError, and AbortError when the signal is aborted
 */
export async function request(path: string, options: RequestOptions = {}): Promise<Response> {
  const key = sessionKey.value;
  const query = queryOf(options.query ?? {}).toString();
  const { json } = options;
  let response: Response;
  try {
    response = await fetch(`${basePath}${path}${query === '' ? '' : `?${query}`}`, {
      method: options.method ?? (json === undefined ? 'GET' : 'POST'),
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      headers: {
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === '' ? {} : { authorization: `Bearer ${key}` }),
        'x-gateway-timezone': timeZone.value,
        ...options.headers,
      },
      signal: options.signal ?? null,
      // Answers depend on the key, which is no cookie.
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError('The gateway does not answer. Check that it is running.', { status: 0, code: 'unreachable' });
  }
  if (response.ok) {
    accepted = key;
    return response;
  }
  const error = await errorOf(response);
  // An answer to an earlier key says nothing about the current one.
  if (sessionKey.value === key && isOfTheKey(error)) forgetKey(accepted === key ? endedText(error) : error.message);
  throw error;
}

/** The last key that the gateway accepted in this tab. */
let accepted: string | undefined;

/** The gateway does not tell clients why it refuses a key, but this one was accepted before. */
function endedText({ status, message }: ApiError): string {
  return status === 401
    ? 'It was accepted before: it has been deactivated or rotated, or has expired. An administrator can tell which, and give you another one.'
    : message;
}

/** Whether no request with this key can succeed. */
function isOfTheKey({ status, code }: ApiError): boolean {
  return status === 401 || code === 'dashboard_access_denied';
}

async function errorOf(response: Response): Promise<ApiError> {
  const wait = Number(response.headers.get('retry-after') ?? Number.NaN);
  const given = { status: response.status, retryAfterSeconds: Number.isFinite(wait) ? wait : undefined };
  try {
    const { error } = (await response.json()) as { error: { message?: string; code?: string; param?: string } };
    return new ApiError(error.message ?? `The gateway answered with status ${response.status}.`, {
      ...given,
      code: error.code ?? 'unknown',
      parameter: error.param ?? undefined,
    });
  } catch {
    return new ApiError(
      `The status is ${response.status}, without an error of the gateway. A proxy between this browser and the gateway may have sent it.`,
      { ...given, code: 'no_json' },
    );
  }
}
