/**
 * Query parameters as a route declares them: how the text is read, and how the documents describe it. Reading refuses a
 * wrong value with 400 and the name of the parameter as `param`; a parameter that is absent or empty is undefined.
 */
import { z } from 'zod';
import { booleanIn, oneOf, type Query, textIn, type WholeNumberRange, wholeNumber } from '../query.ts';
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
