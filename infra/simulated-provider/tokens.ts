/**
 * The simulated models' tokenizer: a word or a single punctuation mark is a token, and the white space before it
 * belongs to it. The tokens of a text, joined, are the text again.
 */
const TOKEN = /\s*(?:[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_])|\s+/gu;

export function tokensOf(text: string): string[] {
  return text.match(TOKEN) ?? [];
}

export function countTokens(text: string): number {
  TOKEN.lastIndex = 0;
  let count = 0;
  while (TOKEN.test(text)) count++;
  return count;
}
