/**
 * Query parameters as a route declares them: how the text is read, and how the documents describe it. Reading refuses a
 * wrong value with 400 and the name of the parameter as `param`; a parameter that is absent or empty is undefined.
 */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import { booleanIn, oneOf, type Query, textIn, type WholeNumberRange, wholeNumber } from '../request-head.ts';
import type { JsonSchema } from './route-schema.ts';

export interface QueryParameter<Value> {
  readonly description: string;
  /** JSON schema of the value. */
  readonly schema: JsonSchema;
  /** @throws Refusal 400 */
  read(query: Query, name: string): Value;
}

/** The values that the parameters read. */
export type Values<Parameters> = {
  -readonly [Name in keyof Parameters]: Parameters[Name] extends QueryParameter<infer Value> ? Value : never;
};

/** The schema of a query: parameters that it does not name are ignored. */
export function queryOfParameters<const Parameters extends Readonly<Record<string, QueryParameter<unknown>>>>(
  parameters: Parameters,
): z.ZodType<Values<Parameters>> {
  const members = Object.entries(parameters).map(([name, { description, schema, read }]) => [
    name,
    z
      .unknown()
      .optional()
      // Described before it is transformed: documents omit the default of a transformed value.
      .meta({ ...schema, description })
      .transform((value) => read({ [name]: value as Query[string] }, name)),
  ]);
  return z.object(Object.fromEntries(members)) as never;
}

/** Text of at most 1,024 characters. */
export const textParameter = (description: string, schema: JsonSchema = {}): QueryParameter<string | undefined> => ({
  description,
  schema: { type: 'string', maxLength: 1024, ...schema },
  read: textIn,
});

/** One of the words, in exactly this spelling. */
export const wordParameter = <Word extends string>(
  words: readonly Word[],
  description: string,
): QueryParameter<Word | undefined> => ({
  description,
  schema: { type: 'string', enum: words },
  read: (query, name) => oneOf(query, name, words),
});

/** `true` or `1`, `false` or `0`. */
export const booleanParameter = (description: string): QueryParameter<boolean | undefined> => ({
  description,
  schema: { type: 'boolean' },
  read: booleanIn,
});

/** A whole number in the inclusive range. */
export const numberParameter = (range: WholeNumberRange, description: string): QueryParameter<number | undefined> => ({
  description,
  schema: { type: 'integer', minimum: range.least, maximum: range.most },
  read: (query, name) => wholeNumber(query, name, range),
});

/** With a value when it is absent. */
export const parameterWithDefault = <Value>(
  parameter: QueryParameter<Value | undefined>,
  value: NonNullable<Value>,
): QueryParameter<NonNullable<Value>> => ({
  description: parameter.description,
  schema: { ...parameter.schema, default: value },
  read: (query, name) => parameter.read(query, name) ?? value,
});

/** Most values of a parameter that is a list. */
const MOST_VALUES = 50;

/** Texts of at most 1,024 characters, one for each repetition of the parameter. Undefined without any. */
export const textsParameter = (description: string): QueryParameter<readonly string[] | undefined> => ({
  description: `${description}. Several by repetition`,
  schema: { type: 'array', items: { type: 'string', maxLength: 1024 }, maxItems: MOST_VALUES },
  read: (query, name) => listIn(query, name, textIn),
});

/** Words, by repetition or separated by commas. Undefined without any. */
export const wordsParameter = <Word extends string>(
  words: readonly Word[],
  description: string,
): QueryParameter<readonly Word[] | undefined> => ({
  description: `${description}. Several by repetition or with commas`,
  schema: { type: 'array', items: { type: 'string', enum: words }, maxItems: MOST_VALUES },
  read: (query, name) => listIn(separated(query, name), name, (one) => oneOf(one, name, words)),
});

/** Whole numbers in the inclusive range, by repetition or separated by commas. Undefined without any. */
export const numbersParameter = (
  range: WholeNumberRange,
  description: string,
): QueryParameter<readonly number[] | undefined> => ({
  description: `${description}. Several by repetition or with commas`,
  schema: {
    type: 'array',
    items: { type: 'integer', minimum: range.least, maximum: range.most },
    maxItems: MOST_VALUES,
  },
  read: (query, name) => listIn(separated(query, name), name, (one) => wholeNumber(one, name, range)),
});

function separated(query: Query, name: string): Query {
  return { [name]: [query[name] ?? []].flat().flatMap((value) => value.split(',')) };
}

/** @param read reads one value; undefined for an empty one, which is left out */
function listIn<Value>(
  query: Query,
  name: string,
  read: (query: Query, name: string) => Value | undefined,
): readonly Value[] | undefined {
  const values = [query[name] ?? []].flat().flatMap((value) => read({ [name]: value }, name) ?? []);
  if (values.length > MOST_VALUES) {
    throw refusals.invalidRequest(`'${name}' has more than ${MOST_VALUES} values.`, name);
  }
  return values.length === 0 ? undefined : [...new Set(values)];
}
