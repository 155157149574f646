import type { ResponseStatus } from '../../providers/translate/chat-to-responses/response-object.ts';

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
