/**
 * Values of query parameters. A parameter that is given several times counts with its last value, an empty one as not
 * given; white space is never trimmed. A wrong value is 400 `invalid_value` with the parameter's name as `param`.
 */
import type { FastifyRequest } from 'fastify';
import { refusals } from '../commands/refusal.ts';

/** The query of a request, as Fastify parses it. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

export function queryOf(request: Pick<FastifyRequest, 'query'>): Query {
  return request.query as Query;
}

/** The value of a parameter; of several, the last. An empty one counts as not given. */
export function single(value: Query[string]): string | undefined {
  const one = typeof value === 'object' ? value.at(-1) : value;
  return one === '' ? undefined : one;
}

/** Longest value of a text filter. */
const MAX_TEXT = 1024;

/** A filter that is text, of at most 1,024 characters. @throws Refusal 400 */
export function textIn(query: Query, name: string): string | undefined {
  const text = single(query[name]);
  if (text === undefined || text.length <= MAX_TEXT) return text;
  throw refusals.invalidRequest(`'${name}' is longer than ${MAX_TEXT} characters.`, name);
}

/** One of the words, in exactly this spelling. @throws Refusal 400 */
export function oneOf<Word extends string>(query: Query, name: string, words: readonly Word[]): Word | undefined {
  const text = single(query[name]);
  const word = words.find((one) => one === text);
  if (text === undefined || word !== undefined) return word;
  throw refusals.invalidRequest(`'${name}' must be one of ${words.join(', ')}.`, name);
}

/** `true` or `1`, `false` or `0`, in any case. @throws Refusal 400 */
export function booleanIn(query: Query, name: string): boolean | undefined {
  const text = single(query[name])?.toLowerCase();
  if (text === undefined) return undefined;
  if (text === 'true' || text === '1') return true;
  if (text === 'false' || text === '0') return false;
  throw refusals.invalidRequest(`'${name}' must be true or false.`, name);
}

/** Inclusive bounds. */
export interface WholeNumberRange {
  readonly least: number;
  readonly most: number;
}

/** Up to 16 ASCII digits and nothing else: no sign, exponent, fraction or space. @throws Refusal 400 */
export function wholeNumber(query: Query, name: string, { least, most }: WholeNumberRange): number | undefined {
  const text = single(query[name]);
  if (text === undefined) return undefined;
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  const upTo = most === Number.MAX_SAFE_INTEGER ? 'on' : `to ${most}`;
  throw refusals.invalidRequest(`'${name}' must be a whole number from ${least} ${upTo}.`, name);
}

/**
 * Called for every route that is not forwarded to a provider: ClickHouse reads a text only up to a zero byte.
 * @throws Refusal 400 for a parameter that contains one
 */
export function checkQuery({ url, query }: Pick<FastifyRequest, 'url' | 'query'>): void {
  if (!url.includes('%00')) return;
  for (const [name, value] of Object.entries(query as Query)) {
    const texts = [name, ...[value].flat()];
    if (!texts.some((text) => text?.includes('\0'))) continue;
    const param = name.replaceAll('\0', '');
    throw refusals.invalidRequest(`'${param}' contains a zero byte.`, param);
  }
}
