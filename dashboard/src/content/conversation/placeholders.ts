/** Placeholders that guardrails write in the place of values: `<EMAIL_1>`. */
const placeholder = /<[A-Z][A-Z0-9_]{0,39}_[0-9]{1,9}>/g;

export interface PlaceholderSpan {
  readonly text: string;
  readonly isPlaceholder: boolean;
}

/** The text in order, with its placeholders apart. */
export function splitPlaceholders(text: string): PlaceholderSpan[] {
  const spans: PlaceholderSpan[] = [];
  let from = 0;
  for (const match of text.matchAll(placeholder)) {
    if (match.index > from) spans.push({ text: text.slice(from, match.index), isPlaceholder: false });
    spans.push({ text: match[0], isPlaceholder: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) spans.push({ text: text.slice(from), isPlaceholder: false });
  return spans;
}
