/** The id of a chat completion that the gateway itself generates. */
export function completionIdOf(exchangeId: string): string {
  return `chatcmpl-${exchangeId.replaceAll('-', '')}`;
}
