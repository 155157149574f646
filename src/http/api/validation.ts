/** Validation of requests by the schemas of their routes, before the handler runs. */
import type { FastifySchemaCompiler } from 'fastify';
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import { parseJson } from '../../commands/request-check.ts';
import { toRefusal } from '../errors.ts';

/**
 * Fastify's validator compiler for admin routes: bodies, queries and path parameters are replaced by the parsed values.
 * The error of a validator is a Refusal 400 with `param`.
 */
export const validateBySchema: FastifySchemaCompiler<unknown> = ({ schema, httpPart }) => {
  if (!(schema instanceof z.ZodType)) return unchanged;
  const read =
    httpPart === 'body'
      ? (data: unknown) => checked(parsedBody(data, schema), schema)
      : (data: unknown) => schema.parse(data);
  return (data: unknown) => {
    try {
      return { value: read(data) };
    } catch (error) {
      return { error: toRefusal(error) };
    }
  };
};

/** For routes whose schemas only describe the request: Fastify calls no validator for them. */
export const validateNothing = () => undefined;

function unchanged(value: unknown) {
  return { value };
}

/** Admin bodies contain only plain numbers, and no unknown members are kept: `JSON.parse` is exact enough. */
function parsedBody(body: unknown, schema: z.ZodType): unknown {
  if (Buffer.isBuffer(body) && body.length > 0) {
    const value = parseJson(body, JSON.parse);
    if (body.includes('\\u0000')) checkZeroBytes(value, []);
    return value;
  }
  if (schema.safeParse(undefined).success) return undefined;
  throw refusals.invalidRequest('The request needs a JSON body.', null, 'invalid_json');
}

/** ClickHouse reads a text only up to a zero byte. @throws Refusal 400 for a text or a name that contains one */
function checkZeroBytes(value: unknown, path: readonly string[]): void {
  if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      checkZeroBytes(name, path);
      checkZeroBytes(member, [...path, name]);
    }
  } else if (typeof value === 'string' && value.includes('\0')) {
    const name = path.join('.');
    throw refusals.invalidRequest(`'${name}' contains a zero byte.`, name === '' ? null : name);
  }
}

/**
 * The value as the schema parses it: every error names the field.
 * @param schema `z.strictObject`, so that an unknown field is refused and not ignored
 * @throws Refusal 400 with `param`
 */
export function checked<Schema extends z.ZodType>(value: unknown, schema: Schema): z.output<Schema> {
  const read = schema.safeParse(value, { reportInput: true });
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  if (issue === undefined) throw refusals.invalidRequest('The request body is not valid.', null);
  if (issue.code === 'unrecognized_keys') {
    const name = [...issue.path, issue.keys[0] ?? ''].join('.');
    throw refusals.unknownParameter(name);
  }
  const name = issue.path.join('.');
  const code = issue.code === 'invalid_type' || issue.code === 'invalid_union' ? 'invalid_type' : 'invalid_value';
  if (name === '') throw refusals.invalidRequest(`The request body is not valid: ${issue.message}.`, null, code);
  if (code === 'invalid_type' && issue.input === undefined) throw refusals.missingParameter(name);
  throw refusals.invalidRequest(`'${name}' is not valid: ${issue.message}.`, name, code);
}
