/** A recorded JSON value as source code of a language: every string in quotes, numbers with their digits. */
import { childrenOf, isContainer, type JsonNode, kindOf, nameOf, sourceOf, stringOf } from '../json/json-document.ts';
import type { Sliced } from '../sliced.ts';

export interface LiteralStyle {
  readonly words: Readonly<Record<'true' | 'false' | 'null', string>>;
  readonly string: (text: string) => string;
  /** The name of a member, quoted. */
  readonly name: (text: string) => string;
}

/** Invisible characters are written as escapes: the code shows what it contains. */
const invisible = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

const jsString = (text: string) =>
  JSON.stringify(text).replace(invisible, (found) => {
    const code = found.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });

export const typeScript: LiteralStyle = {
  words: { true: 'true', false: 'false', null: 'null' },
  string: jsString,
  // A plain `__proto__` would set the prototype.
  name: (text) => (text === '__proto__' ? '["__proto__"]' : /^[A-Za-z_]\w*$/.test(text) ? text : jsString(text)),
};

const pyString = (text: string) =>
  JSON.stringify(text).replace(invisible, (found) => {
    const code = found.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });

export const python: LiteralStyle = {
  words: { true: 'True', false: 'False', null: 'None' },
  string: pyString,
  name: pyString,
};

/** Deeper values have no literal: parsers of programming languages do not read them either. */
export const MAX_LITERAL_DEPTH = 90;

const VALUES_BETWEEN_YIELDS = 500;

/** The whole value. It is not nested deeper than `MAX_LITERAL_DEPTH`. */
export function* literalOf(node: JsonNode, style: LiteralStyle, indent = ''): Sliced<string> {
  if (!isContainer(node))
    return isLong(node) ? yield* longString(stringOf(node) ?? '', style) : scalarLiteral(node, style);
  const isObject = kindOf(node) === 'object';
  const items: string[] = [];
  let length = 0;
  for (const child of childrenOf(node)) {
    const value =
      isContainer(child) || isLong(child) ? yield* literalOf(child, style, `${indent}  `) : scalarLiteral(child, style);
    const item = isObject ? `${style.name(nameOf(child) ?? '')}: ${value}` : value;
    items.push(item);
    length += item.length;
    if (items.length % VALUES_BETWEEN_YIELDS === 0) yield;
  }
  return listed(isObject ? ['{ ', ' }'] : ['[', ']'], items, length, indent);
}

const LONG_STRING = 50_000;

function isLong(node: JsonNode): boolean {
  const { document, index } = node;
  return kindOf(node) === 'string' && (document.ends[index] ?? 0) - (document.starts[index] ?? 0) > LONG_STRING;
}

/** One literal, written in parts that do not split a character. */
function* longString(text: string, style: LiteralStyle): Sliced<string> {
  const parts: string[] = [];
  for (let at = 0; at < text.length; ) {
    const last = text.charCodeAt(at + LONG_STRING - 1);
    const end = at + (last >= 0xd800 && last < 0xdc00 ? LONG_STRING - 1 : LONG_STRING);
    parts.push(style.string(text.slice(at, end)).slice(1, -1));
    at = end;
    yield;
  }
  return `"${parts.join('')}"`;
}

function scalarLiteral(node: JsonNode, style: LiteralStyle): string {
  const kind = kindOf(node);
  if (kind === 'string') return style.string(stringOf(node) ?? '');
  return kind === 'true' || kind === 'false' || kind === 'null' ? style.words[kind] : sourceOf(node);
}

const MAX_LINE = 80;

/** On one line where it is short; never the outermost value. */
function listed(
  [open, close]: readonly [string, string],
  items: readonly string[],
  length: number,
  indent: string,
): string {
  if (items.length === 0) return open.trim() + close.trim();
  const isShort = indent !== '' && length + 2 * items.length + indent.length <= MAX_LINE;
  if (isShort && !items.some((item) => item.includes('\n'))) return open + items.join(', ') + close;
  const lines = items.join(`,\n${indent}  `);
  return `${open.trim()}\n${indent}  ${lines},\n${indent}${close.trim()}`;
}

export function* depthOf(node: JsonNode): Sliced<number> {
  const { document } = node;
  const depths = new Map<number, number>([[node.index, 1]]);
  let deepest = 1;
  for (let index = node.index + 1; index < (document.nexts[node.index] ?? 0); index += 1) {
    if (index % VALUES_BETWEEN_YIELDS === 0) yield;
    if ((document.childCounts[index] ?? 0) === 0) continue;
    const depth = (depths.get(document.parents[index] ?? 0) ?? 0) + 1;
    depths.set(index, depth);
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}
