/**
 * A document with line breaks and indentation; names, strings and numbers as they stand in the text. Only for documents
 * without a problem: containers that the text does not close would be closed.
 */
import type { Sliced } from '../sliced.ts';
import type { JsonDocument } from './json-document.ts';

const VALUES_BETWEEN_YIELDS = 2_000;
/** Deeper values are not indented further, so that the result grows in proportion to the text. */
const MAX_INDENT = 20;
const MAX_LENGTH = 40_000_000;
const LINES_OF_PART = 2_000;
const CONTAINER = 1;

/** Undefined when the result would be longer than 40 million characters. */
export function* formatJson(document: JsonDocument): Sliced<string | undefined> {
  const { text, count, kinds, starts, ends, parents, ordinals, childCounts, keyStarts, keyEnds } = document;
  /** Joined now and then, so that no join takes long. */
  let lines: string[] = [];
  const parts: string[] = [];
  let length = 0;
  let line = '';
  /** Containers that are open, with their closing bracket. */
  const open: number[] = [];
  const indent = () => '  '.repeat(Math.min(open.length, MAX_INDENT));
  const endLine = () => {
    lines.push(line);
    length += line.length + 1;
    if (lines.length < LINES_OF_PART) return;
    parts.push(lines.join('\n'));
    lines = [];
  };
  function* closeUntil(parent: number): Sliced<void> {
    let closed = 0;
    for (let last = open.at(-1); last !== undefined && last !== parent; last = open.at(-1)) {
      open.pop();
      endLine();
      line = indent() + closingOf(document, last);
      closed += 1;
      if (closed % VALUES_BETWEEN_YIELDS === 0) yield;
    }
  }
  for (let index = 0; index < count; index += 1) {
    if (index % VALUES_BETWEEN_YIELDS === VALUES_BETWEEN_YIELDS - 1) yield;
    if (length > MAX_LENGTH) return undefined;
    if (index > 0) {
      if (open.at(-1) !== parents[index]) yield* closeUntil(parents[index] ?? -1);
      if ((ordinals[index] ?? 0) > 0) line += ',';
      endLine();
      line = indent();
    }
    const keyStart = keyStarts[index] ?? -1;
    if (keyStart >= 0) line += `${text.slice(keyStart, keyEnds[index])}: `;
    const isContainer = (kinds[index] ?? 0) <= CONTAINER;
    if (!isContainer) line += text.slice(starts[index], ends[index]);
    else if ((childCounts[index] ?? 0) === 0) line += text[starts[index] ?? 0] === '{' ? '{}' : '[]';
    else {
      line += text[starts[index] ?? 0] ?? '';
      open.push(index);
    }
  }
  yield* closeUntil(-1);
  lines.push(line);
  parts.push(lines.join('\n'));
  return parts.join('\n');
}

function closingOf({ text, starts }: JsonDocument, index: number): string {
  return text[starts[index] ?? 0] === '{' ? '}' : ']';
}
