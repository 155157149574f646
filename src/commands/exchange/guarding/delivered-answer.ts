/** The answer of an exchange that was cut off, as far as its client may have received it. */
import { isObject } from '../../../json/is-object.ts';
import { createFrameSplitter } from '../../../providers/sse.ts';
import { parseChunk } from '../../model-request/parse-chunk.ts';
import type { EarlyEnd } from '../../model-request/stream-refusals.ts';
import type { StorableResponse } from '../../responses/storable-response.ts';
import type { PastAttempt } from '../dialect.ts';
import type { GuardedAnswers } from './guarded-endpoint.ts';

export interface DeliveredSoFar {
  /** The end of the client's stream. */
  readonly rest: Buffer | undefined;
  /** The response to store. */
  readonly response: StorableResponse | undefined;
}

/** @param frames the bodies of `frame.delivered`, in order; at least one */
export function deliveredAnswer(
  frames: readonly Uint8Array[],
  { writer }: Pick<GuardedAnswers, 'writer'>,
  past: PastAttempt,
  end: EarlyEnd,
): DeliveredSoFar {
  const answer = writer(past);
  for (const { data } of createFrameSplitter().push(Buffer.concat(frames))) {
    const event = data === undefined || data === '[DONE]' ? undefined : parseChunk(data);
    if (isObject(event)) answer.events([event]);
  }
  return { rest: answer.abandon?.(end), response: answer.response?.() };
}
