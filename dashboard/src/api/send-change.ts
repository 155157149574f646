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

/**
 * Sends one change. It is in force in all gateways once this resolves.
 * @returns the answer; undefined for an answer without a body
 * @throws ApiError
 */
export async function sendChange<Verb extends Method, Path extends PathOf<Verb>>(
  change: Change<Verb, Path>,
): Promise<AnswerOf<Operation<Path, Lowercase<Verb>>>> {
  const { method, of, at = of, json, query, ifMatch } = change;
  const response = await request(at, {
    method,
    json,
    query,
    ...(ifMatch === undefined ? {} : { headers: { 'if-match': `"${ifMatch}"` } }),
  });
  const text = await response.text();
  if (text === '') return undefined as AnswerOf<Operation<Path, Lowercase<Verb>>>;
  try {
    return JSON.parse(text) as AnswerOf<Operation<Path, Lowercase<Verb>>>;
  } catch {
    throw new ApiError('The change was sent, but its answer is incomplete. Load the page again to see the state.', {
      ...{ status: 0, code: 'no_json' },
    });
  }
}

/** Whether the change was based on a revision that is not the current one. */
export function isConflict(error: ApiError | undefined): boolean {
  return error?.code === 'revision_mismatch';
}
