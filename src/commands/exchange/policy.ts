/** The policy that applies to one request. Selected once, before anything is recorded. */
export interface ExchangePolicy {
  /** `metadata`: neither the body of the request nor the answer is recorded. */
  readonly capture: 'full' | 'metadata';
}
