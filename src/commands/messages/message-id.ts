/** The id of a message of the Messages API that the gateway itself generates. */
export function messageIdOf(exchangeId: string): string {
  return `msg_${exchangeId.replaceAll('-', '')}`;
}
