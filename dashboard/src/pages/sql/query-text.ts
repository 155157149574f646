/** The text of a query: its code without strings and comments, its limit, and the places that errors name. Pure. */

const strings = /'(?:\\.|''|[^'\\])*(?:'|$)|"(?:\\.|[^"\\])*(?:"|$)|`[^`]*(?:`|$)/;
const comments = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/;
const noCode = new RegExp(`${strings.source}|${comments.source}`, 'g');

/** The same text with strings, quoted names and comments as spaces, so that offsets stay. */
export function codeOf(text: string): string {
  return text.replaceAll(noCode, blank);
}

function withoutComments(text: string): string {
  return text.replaceAll(noCode, (found) => (/^(?:--|\/\*)/.test(found) ? blank(found) : found));
}

function blank(text: string): string {
  return text.replaceAll(/[^\n]/g, ' ');
}

/**
 * The query with at most so many rows of its result. A query that has settings or a format of its own, or is no
 * SELECT, is left as it is.
 */
export function withLimit(text: string, rows: number): string {
  const code = codeOf(text);
  const end = withoutComments(text).replace(/[\s;]+$/, '').length;
  if (!/^\s*(?:\(|with\b|select\b)/i.test(code) || /\b(?:settings|format|outfile)\b/i.test(code)) return text;
  // The end of the code: what follows is a semicolon or a comment.
  return `${text.slice(0, end)}\nSETTINGS limit = ${rows}`;
}

/** The place in the query that an error names; undefined when it names none. */
export function errorOffset(message: string, text: string): number | undefined {
  const line = /\(line (\d+), col(?:umn)?:? (\d+)\)/.exec(message);
  if (line !== null) {
    const lines = text.split('\n');
    const above = lines.slice(0, Number(line[1]) - 1).reduce((sum, one) => sum + one.length + 1, 0);
    return within(above + Number(line[2]) - 1, text);
  }
  const position = /failed at position (\d+)/.exec(message);
  if (position !== null) return within(Number(position[1]) - 1, text);
  const code = codeOf(text);
  for (const [, quoted, named, called] of message.matchAll(unknownName)) {
    const name = (quoted ?? named ?? called ?? '').split('.').at(-1);
    const at = code.search(new RegExp(`\\b${name}\\b`));
    if (at !== -1) return at;
  }
  return undefined;
}

/** In quotes, after `identifier`, or before the brackets of a refused function. */
const unknownName = /[`'"]([\w.]*\w)[`'"]|\bidentifier:? ([\w.]*\w)|(\w+)\(…\)/gi;

function within(offset: number, text: string): number {
  return Math.min(Math.max(0, offset), text.length);
}

/** Line and column of an offset, both from 1. */
export function placeOf(offset: number, text: string): { readonly line: number; readonly column: number } {
  const lines = text.slice(0, offset).split('\n');
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}

/** Longer queries are not part of the address. */
const MOST_IN_ADDRESS = 2000;
const NAME = 'query=';

/**
 * The fragment of the address with the query: browsers send it to no server, so it is in no log of a proxy. '' for a
 * query that is too long.
 */
export function fragmentOf(text: string): string {
  const trimmed = text.trim();
  return trimmed === '' || trimmed.length >= MOST_IN_ADDRESS ? '' : `#${NAME}${encodeURIComponent(trimmed)}`;
}

/** @returns undefined for a fragment without a query */
export function queryIn(fragment: string): string | undefined {
  if (!fragment.startsWith(`#${NAME}`)) return undefined;
  try {
    return decodeURIComponent(fragment.slice(NAME.length + 1));
  } catch {
    return undefined;
  }
}
