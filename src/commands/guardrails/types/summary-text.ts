const longest = 72;

/** The first line's worth of a text, for the summary of a guardrail. */
export function cut(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}
