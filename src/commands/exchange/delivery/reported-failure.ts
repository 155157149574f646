import type { Frame } from '../../../providers/sse.ts';
import { isErrorBody, mapUpstreamError } from '../../../providers/upstream-error.ts';
import { type Answering, redacted } from '../../model-request/redacted.ts';
import { refusalFromUpstream } from '../../model-request/refusal-from-upstream.ts';
import { refusals } from '../../refusal.ts';
import type { FrameAnswer } from '../relay.ts';

/** The failure that this part of a provider's stream reports, in its members or as an event named `error`. */
export function failureIn(part: object, frame: Frame, provider: Answering): FrameAnswer | undefined {
  return frame.event === 'error' || isErrorBody(part) ? reportedFailure(part, frame, provider) : undefined;
}

/** The failure that a provider reports in its stream. @param body its error, in OpenAI's form or as a plain string */
export function reportedFailure(body: object, frame: Frame, provider: Answering): FrameAnswer {
  const answer = { status: 200, headers: {}, body: Buffer.from(JSON.stringify(body)), provider };
  return {
    terminal: true,
    refusal: refusalFromUpstream(mapUpstreamError(answer)),
    record: redacted(frame.raw, provider),
  };
}

/** The failure of a stream with an event whose data is not JSON: a part of the answer is missing. */
export function unreadableEvent(frame: Frame, provider: Answering): FrameAnswer {
  if (frame.event === 'error') return reportedFailure({ message: frame.data }, frame, provider);
  const { name } = provider;
  const refusal = refusals.badAnswer(name, `The provider '${name}' sent a stream event that is not JSON.`);
  return { terminal: true, refusal, record: redacted(frame.raw, provider) };
}
