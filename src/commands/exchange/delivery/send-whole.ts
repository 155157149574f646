/** Sends an answer that is complete before its first byte is sent: from a guardrail, or from the response cache. */
import type { Client } from '../../model-request/client.ts';

/** Number of the attempt in the record: no provider was called. */
export const NO_ATTEMPT = 0;

/** The content type of such an answer. */
export function wholeContentType({ stream }: { readonly stream: boolean }): string {
  return stream ? 'text/event-stream; charset=utf-8' : 'application/json';
}

/** @returns the status that is recorded: 200 */
export function sendWhole(
  client: Client,
  { stream }: { readonly stream: boolean },
  headers: Record<string, string>,
  bytes: Buffer,
): number {
  if (!stream) {
    client.answer(200, headers, bytes);
    return 200;
  }
  client.begin(200, headers);
  client.write(bytes);
  client.end();
  return 200;
}
