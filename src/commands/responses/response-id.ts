/** The id of a response that the gateway itself generates. */
export function responseIdOf(exchangeId: string): string {
  return `resp_${exchangeId.replaceAll('-', '')}`;
}
