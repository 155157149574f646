/** The failure that an event of a native Messages stream reports. */
import { isObject } from '../../../../json/is-object.ts';
import { statusOfErrorType } from '../../../../providers/anthropic/error-types.ts';
import type { Frame } from '../../../../providers/sse.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import { isErrorBody, mapUpstreamError } from '../../../../providers/upstream-error.ts';
import { type Answering, redacted } from '../../../model-request/redacted.ts';
import { refusalFromUpstream } from '../../../model-request/refusal-from-upstream.ts';
import { type FrameAnswer, reportedFailure } from '../../relay.ts';

/** Anthropic's own `error` event is passed to the client: `bytes` are the event without the provider's credentials. */
export function messagesFailureOf(event: JsonObject, frame: Frame, provider: Answering): FrameAnswer | undefined {
  if (!isErrorBody(event)) return undefined;
  if (event['type'] !== 'error') return reportedFailure(event, frame, provider);
  const type = isObject(event['error']) ? event['error']['type'] : undefined;
  const body = Buffer.from(JSON.stringify(event));
  const refusal = refusalFromUpstream(
    mapUpstreamError({ headers: {}, body, provider, status: statusOfErrorType(type) ?? 200 }),
  );
  const clean = redacted(frame.raw, provider);
  return { bytes: clean, record: clean, terminal: true, refusal };
}
