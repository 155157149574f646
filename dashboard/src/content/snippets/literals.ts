/** A recorded JSON value as source code of a language: every string in quotes, numbers with their digits. */
import { childrenOf, type JsonNode, kindOf, nameOf, sourceOf, stringOf } from '../json/json-document.ts';

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

export function literalOf(node: JsonNode, style: LiteralStyle, indent = ''): string {
  const kind = kindOf(node);
  switch (kind) {
    case 'string':
      return style.string(stringOf(node) ?? '');
    case 'number':
      return sourceOf(node);
    case 'array':
      return listed(
        '[',
        ']',
        Array.from(childrenOf(node), (child) => literalOf(child, style, `${indent}  `)),
        indent,
      );
    case 'object': {
      const members = Array.from(
        childrenOf(node),
        (child) => `${style.name(nameOf(child) ?? '')}: ${literalOf(child, style, `${indent}  `)}`,
      );
      return listed('{', '}', members, indent);
    }
    default:
      return style.words[kind];
  }
}

function listed(open: string, close: string, items: readonly string[], indent: string): string {
  if (items.length === 0) return open + close;
  const oneLine = `${open}${open === '{' ? ' ' : ''}${items.join(', ')}${open === '{' ? ' ' : ''}${close}`;
  if (indent !== '' && oneLine.length + indent.length <= 80 && !oneLine.includes('\n')) return oneLine;
  return `${open}\n${items.map((item) => `${indent}  ${item},\n`).join('')}${indent}${close}`;
}

export function depthOf(node: JsonNode): number {
  const { document } = node;
  const depths = new Map<number, number>([[node.index, 1]]);
  let deepest = 1;
  for (let index = node.index + 1; index < (document.nexts[node.index] ?? 0); index += 1) {
    if ((document.childCounts[index] ?? 0) === 0) continue;
    const depth = (depths.get(document.parents[index] ?? 0) ?? 0) + 1;
    depths.set(index, depth);
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}
