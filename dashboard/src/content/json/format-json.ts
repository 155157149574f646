/**
 * A document with line breaks and indentation; names, strings and numbers as they stand in the text. Only for documents
 * without a problem: containers that the text does not close would be closed.
 */
import type { Sliced } from '../sliced.ts';
import type { JsonDocument } from './json-document.ts';

const VALUES_BETWEEN_YIELDS = 2_000;
/** Deeper values are not indented further, so that the result grows in proportion to the text. */
const MAX_INDENT = 40;
const CONTAINER = 1;

export function* formatJson(document: JsonDocument): Sliced<string> {
  const { text, count, kinds, starts, ends, parents, ordinals, childCounts, keyStarts, keyEnds } = document;
  const lines: string[] = [];
  let line = '';
  /** Containers that are open, with their closing bracket. */
  const open: number[] = [];
  const indent = () => '  '.repeat(Math.min(open.length, MAX_INDENT));
  const closeUntil = (parent: number) => {
    for (let last = open.at(-1); last !== undefined && last !== parent; last = open.at(-1)) {
      open.pop();
      lines.push(line);
      line = indent() + closingOf(document, last);
    }
  };
  for (let index = 0; index < count; index += 1) {
    if (index % VALUES_BETWEEN_YIELDS === VALUES_BETWEEN_YIELDS - 1) yield;
    if (index > 0) {
      closeUntil(parents[index] ?? -1);
      if ((ordinals[index] ?? 0) > 0) line += ',';
      lines.push(line);
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
  closeUntil(-1);
  lines.push(line);
  return lines.join('\n');
}

function closingOf({ text, starts }: JsonDocument, index: number): string {
  return text[starts[index] ?? 0] === '{' ? '}' : ']';
}
