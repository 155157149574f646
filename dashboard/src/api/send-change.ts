/** Changes through the admin API. */
import type { paths } from '../../generated/api';
import type { QueryValue } from '../app/router.ts';
import { type AnswerOf, ApiError, type Operation, request } from './client.ts';

type Method = 'PUT' | 'POST' | 'DELETE';

/** Paths with an operation of the method. */
type PathOf<Verb extends Method> = {
  [Path in keyof paths]: paths[Path] extends { [Name in Lowercase<Verb>]: unknown } ? Path : never;
}[keyof paths];

type BodyOf<Call> = Call extends { requestBody: { content: { 'application/json': infer Json } } } ? Json : unknown;

export interface Change<Verb extends Method, Path extends PathOf<Verb>> {
  readonly method: Verb;
  /** The path as the OpenAPI document has it. */
  readonly of: Path;
  /** The path with its parameters filled in and encoded; default: `of`. */
  readonly at?: string;
  readonly json?: BodyOf<Operation<Path, Lowercase<Verb>>>;
  readonly query?: Readonly<Record<string, QueryValue>>;
  /** The revision that the change is based on; another one is refused with 409 `revision_mismatch`. */
  readonly ifMatch?: string | undefined;
}

/** The error of a change whose answer was lost: the gateway may have done it. */
export const OUTCOME_UNKNOWN = 'outcome_unknown';
/** A change waits for every gateway, and a test of a guardrail for a model. */
const ANSWERED_WITHIN_MS = 120_000;

/**
 * Sends one change. It is in force in all gateways once this resolves.
 * @returns the answer; undefined for an answer without a body
 * @throws ApiError; with the code `OUTCOME_UNKNOWN` when no whole answer of the gateway has arrived
 */
export async function sendChange<Verb extends Method, Path extends PathOf<Verb>>(
  change: Change<Verb, Path>,
): Promise<AnswerOf<Operation<Path, Lowercase<Verb>>>> {
  const { method, of, at = of, json, query, ifMatch } = change;
  try {
    const response = await request(at, {
      method,
      json,
      query,
      signal: AbortSignal.timeout(ANSWERED_WITHIN_MS),
      ...(ifMatch === undefined ? {} : { headers: { 'if-match': `"${ifMatch}"` } }),
    });
    const text = await response.text();
    return (text === '' ? undefined : JSON.parse(text)) as AnswerOf<Operation<Path, Lowercase<Verb>>>;
  } catch (error) {
    if (isAnswer(error)) throw error;
    throw new ApiError('The change was sent, but no whole answer of the gateway has arrived.', {
      ...{ status: error instanceof ApiError ? error.status : 0, code: OUTCOME_UNKNOWN },
    });
  }
}

/** Whether the gateway, or a proxy before it, has refused the change. */
function isAnswer(error: unknown): error is ApiError {
  if (!(error instanceof ApiError) || error.code === 'unreachable') return false;
  return error.code !== 'no_json' || (error.status >= 400 && error.status < 500);
}

export function isOutcomeUnknown(error: ApiError | undefined): boolean {
  return error?.code === OUTCOME_UNKNOWN;
}

/** Whether the change was based on a revision that is not the current one. */
export function isConflict(error: ApiError | undefined): boolean {
  return error?.code === 'revision_mismatch';
}
