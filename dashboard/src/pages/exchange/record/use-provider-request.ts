/** What the provider of an attempt received. */
import { type Answer, getAnswer } from '../../../api/client.ts';
import { type Loaded, useLoaded } from '../../../api/use-answer.ts';
import { partOf, type WholeBody, wholeOf } from './use-whole-body.ts';

export interface ProviderRequest {
  readonly answer: Answer<'/admin/audit/provider-request'>;
  /** Undefined when the bytes are not on record. */
  readonly body: WholeBody | undefined;
}

/** Reads nothing without an attempt. */
export function useProviderRequest(id: string, attempt: number | undefined): Loaded<ProviderRequest | undefined> {
  return useLoaded(
    async (signal) => (attempt === undefined ? undefined : readProviderRequest(id, attempt, signal)),
    `${id} ${attempt ?? 'none'}`,
  );
}

async function readProviderRequest(id: string, attempt: number, signal: AbortSignal): Promise<ProviderRequest> {
  const query = { log_id: id, attempt };
  const answer = await getAnswer('/admin/audit/provider-request', { query, signal });
  if (answer.recorded !== 'body') return { answer, body: undefined };
  const parts = [partOf(answer)];
  for (let offset = answer.body_next_offset; offset !== undefined; ) {
    const more = await getAnswer('/admin/audit/provider-request', { query: { ...query, offset }, signal });
    parts.push(partOf(more));
    offset = more.body_next_offset;
  }
  return { answer, body: wholeOf(parts, false) };
}
