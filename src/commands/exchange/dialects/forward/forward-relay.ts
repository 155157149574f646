/** The answer of a forwarded endpoint: its bytes pass unchanged. */
import type { Answering } from '../../../model-request/redacted.ts';
import { streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { unchangedRelay } from '../../answer/unchanged-relay.ts';
import type { Relay } from '../../relay.ts';
import { chatStreamError } from '../chat/writer.ts';
import { ForwardObserver } from './observer.ts';

/** @param endsWithReason whether a stream is whole only with a finish reason or `[DONE]`, as for text completions */
export function forwardRelay(provider: Answering, endsWithReason: boolean): Relay {
  const observer = new ForwardObserver(provider, endsWithReason);
  return unchangedRelay(observer, {
    finish: () =>
      observer.isCut ? { bytes: chatStreamError(streamIncomplete(provider.name)), cut: true } : { cut: false },
    broken: chatStreamError,
  });
}
