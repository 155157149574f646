/** The relay of an object that a provider stores, or of its content. Nothing in it is a model's answer. */
import { type AnswerEnd, type AnswerObserver, type Relay, unchangedRelay } from '../exchange/relay.ts';
import { unknownUsage } from '../model-request/usage.ts';

const end: AnswerEnd = { finish: () => ({ cut: false }) };

/**
 * @param given `whole` gets a JSON answer and returns the client's bytes; `deferredWork` is the work that the
 * provider continues after it
 */
export function objectRelay(given: Partial<Pick<AnswerObserver, 'whole' | 'deferredWork'>> = {}): Relay {
  const observer: AnswerObserver = {
    whole: (bytes) => bytes,
    frame: ({ raw }) => ({ bytes: raw, terminal: false }),
    usage: () => unknownUsage,
    ...given,
  };
  return unchangedRelay(observer, end);
}
