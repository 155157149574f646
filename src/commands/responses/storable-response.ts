import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import type { ResponseStatus } from '../../providers/translate/chat-to-responses/response-object.ts';
import type { Refusal } from '../refusal.ts';

/** A response to store, in the stream `response-<id>`. */
export interface StorableResponse {
  readonly id: string;
  readonly status: ResponseStatus;
  /** The response object as JSON text. */
  readonly json: string;
  /** Its output items, when they are already parsed. */
  readonly output?: readonly unknown[];
}

const responseStatuses: readonly ResponseStatus[] = [
  'queued',
  'in_progress',
  'completed',
  'incomplete',
  'failed',
  'cancelled',
];

/** The status of a response object; undefined when it is not a known one. */
export function statusOf(response: Readonly<Record<string, unknown>>): ResponseStatus | undefined {
  return responseStatuses.find((status) => status === response.status);
}

/** A background response that has not ended, and the states in which it can end. Pure. */
const PENDING: ReadonlySet<string> = new Set(['queued', 'in_progress']);

/** Whether the response has not ended. */
export function isPending({ status }: { readonly status: string }): boolean {
  return PENDING.has(status);
}

/** The response in another pending state. */
export function inState(response: object, id: string, status: 'queued' | 'in_progress'): StorableResponse {
  return { id, status, json: JSON.stringify({ ...response, status }) };
}

/**
 * The response that ended early: `failed` with the reason as its error, or `cancelled`. Its output so far is kept.
 * @param storable the output received so far
 */
export function withOutcome(
  response: object,
  id: string,
  status: 'failed' | 'cancelled',
  refusal: Refusal | undefined,
  storable: StorableResponse | undefined,
): StorableResponse {
  const latest = storable === undefined ? response : parsed(storable.json, response);
  const error =
    status === 'failed' && refusal !== undefined
      ? { type: refusal.type, code: refusal.code ?? 'internal_error', message: refusal.message }
      : null;
  const ended = { ...latest, status, error, completed_at: null, incomplete_details: null };
  return { id, status, json: JSON.stringify(ended) };
}

function parsed(json: string, otherwise: object): object {
  const value = parseExactly(json);
  return isObject(value) ? value : otherwise;
}
