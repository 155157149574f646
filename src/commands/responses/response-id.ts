/** The id of a response that the gateway makes itself. */
export function responseIdOf(exchangeId: string): string {
  return `resp_${exchangeId.replaceAll('-', '')}`;
}
