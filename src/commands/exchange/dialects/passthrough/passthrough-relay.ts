/** Any answer of a provider's own API: its bytes pass unchanged, and end where the provider ends them. */
import type { DeferredWork } from '../../../model-request/deferred-work.ts';
import { type AnswerEnd, type Relay, unchangedRelay } from '../../relay.ts';
import { chatStreamError } from '../chat/writer.ts';
import { PassthroughObserver } from './observer.ts';

const end: AnswerEnd = { finish: () => ({ cut: false }), broken: chatStreamError };

/** @param begins the result of `deferredWorkKind` for the request */
export function passthroughRelay(begins?: DeferredWork['kind']): Relay {
  return unchangedRelay(new PassthroughObserver(begins), end);
}
