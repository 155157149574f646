/** Replaces `{name: Identifier}` in a query by its value, so that it is checked like any other name. */
import type { Token } from './normal-tokens.ts';
import { NotForReaders } from './not-for-readers.ts';

const plainNames = /^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*$/;

/**
 * The tokens with the identifiers in place of their parameters, and without the types of other parameters.
 * @throws NotForReaders for an identifier that is missing or not plain
 */
export function withIdentifiers(tokens: readonly Token[], parameters: ReadonlyMap<string, string>): Token[] {
  const all: Token[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at];
    if (token === undefined) break;
    if (token.text !== '{' || token.kind !== 'mark') {
      all.push(token);
      continue;
    }
    const [name, colon, type] = [tokens[at + 1], tokens[at + 2], tokens[at + 3]];
    if (name?.kind !== 'name' || colon?.text !== ':' || type?.kind !== 'name') {
      throw new NotForReaders('braces are allowed only for parameters');
    }
    if (type.name === 'identifier') all.push(...namesOf(name.text, parameters.get(name.text)));
    else all.push({ kind: 'parameter', text: name.text });
    at = endOfBraces(tokens, at + 4);
  }
  return all;
}

function namesOf(parameter: string, value: string | undefined): Token[] {
  if (value === undefined) throw new NotForReaders(`the parameter ${parameter} has no value`);
  if (!plainNames.test(value)) throw new NotForReaders(`the parameter ${parameter} is not a plain name`);
  return value.split('.').flatMap((text, index): Token[] => {
    const name: Token = { kind: 'name', name: text.toLowerCase(), text, quoted: true };
    return index === 0 ? [name] : [{ kind: 'mark', text: '.' }, name];
  });
}

function endOfBraces(tokens: readonly Token[], from: number): number {
  for (let at = from; at < tokens.length; at++) if (tokens[at]?.text === '}') return at;
  throw new NotForReaders('a parameter does not end');
}
