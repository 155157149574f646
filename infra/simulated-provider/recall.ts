/** What a simulated model recognises in a prompt: a request for an exact reply, and facts stated earlier. */

export interface Turn {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly text: string;
}

const EXACTLY =
  /\b(?:reply|respond|answer|return|output|say)\b[^.:\n]{0,40}?\b(?:exactly|only)\b(?: (?:with )?(?:the|this|these)? ?(?:words?|text|string|phrase|sentence|token)s?)?\s*[:,]?\s+(.+)/i;
const QUOTED = /^(["'`“‘])(.*?)["'`”’][.!]?(?:\s.*)?$/;

/** X of "Reply with exactly: X" or "Say exactly X", without its quotation marks. */
export function exactReply(prompt: string): string | undefined {
  const wanted = EXACTLY.exec(prompt)?.[1]?.trim();
  if (wanted === undefined) return undefined;
  return QUOTED.exec(wanted)?.[2] ?? wanted;
}

const QUESTION =
  /\bwhat(?:'s|’s| is| was| are| were)? (my|the) ([\p{L}\p{N} _-]{1,60}?)(?: (?:again|i told you|i gave you|you|that)\b[^?]*)?[?.!]*\s*$/iu;
const FACT = /\b(my|the) ([\p{L}\p{N} _-]{1,60}?) (?:is|was|are|=) ["'`]?(<[\p{L}\p{N}_-]+>|[\p{L}\p{N}_-]+)/giu;

/** "Your name is Ada." for "What is my name?" after an earlier "My name is Ada". The newest statement wins. */
export function recalled(turns: readonly Turn[]): string | undefined {
  const last = turns.at(-1);
  if (last === undefined || last.role !== 'user') return undefined;
  const [, whose, what] =
    QUESTION.exec(last.text.split(/(?<=[.!?])\s+/).findLast((part) => /\bwhat\b/i.test(part)) ?? '') ?? [];
  if (whose === undefined || what === undefined) return undefined;
  for (const turn of turns.slice(0, -1).reverse()) {
    for (const [, , subject, value] of turn.text.matchAll(FACT)) {
      if (subject?.toLowerCase() === what.toLowerCase()) {
        return `${whose.toLowerCase() === 'my' ? 'Your' : 'The'} ${what} is ${value}.`;
      }
    }
  }
  return undefined;
}

/** Names of places or persons in a prompt, or placeholders: "the weather in Paris and New York" gives both. */
export function subjectsOf(prompt: string): string[] {
  const found = prompt.matchAll(
    /(?:\b(?:in|for|of|at|to|from|and|between|or|both)|[,;:])\s+(<\p{Lu}\w*>|\p{Lu}[\p{L}-]+(?: \p{Lu}[\p{L}-]+)*)/gu,
  );
  return [...new Set(Array.from(found, ([, name]) => name ?? ''))];
}
