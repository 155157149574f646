/**
 * An answer that is relayed in two parts: up to its first byte, after which no other provider is called, and the
 * rest.
 */

/** Called once, before the first byte is sent to the client. Nothing may be sent until the promise has resolved. */
export type BeforeFirstByte = () => Promise<void>;

export interface Opening<End> {
  /**
   * `opened` when the first byte is ready; the end of the answer when it ended before that. Rejects when the relay
   * fails.
   */
  readonly first: Promise<'opened' | End>;
  /** Lets the bytes pass to the client. Resolves with the end of the answer. */
  deliver(): Promise<End>;
}

/** @param relay resolves with the end of the answer */
export function opening<End extends object>(relay: (beforeFirstByte: BeforeFirstByte) => Promise<End>): Opening<End> {
  const first = Promise.withResolvers<'opened' | End>();
  const gate = Promise.withResolvers<void>();
  const whole = relay(() => {
    first.resolve('opened');
    return gate.promise;
  });
  whole.then(first.resolve, first.reject);
  return {
    first: first.promise,
    deliver() {
      gate.resolve();
      return whole;
    },
  };
}
