import type { ResponseStatus } from '../../providers/translate/responses-to-chat/response-object.ts';

/** An answer worth keeping: goes to `response-<id>`. */
export interface StorableResponse {
  readonly id: string;
  readonly status: ResponseStatus;
  /** The response object as JSON text. */
  readonly json: string;
  /** Its output items, when they are at hand. */
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

/** The status of a response object, when it is one of those there are. */
export function statusOf(response: Readonly<Record<string, unknown>>): ResponseStatus | undefined {
  return responseStatuses.find((status) => status === response.status);
}
