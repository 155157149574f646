/** The JSON body of an admin request, checked by a schema: every error names the field. */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { parseJson } from '../../commands/parse-json.ts';
import { refusals } from '../../commands/refusal.ts';
import { bodyOf } from '../server.ts';

/**
 * @param schema `z.strictObject`, so that an unknown field is refused and not ignored
 * @throws Refusal 400 with `param`
 */
export function readBody<Schema extends z.ZodType>(request: FastifyRequest, schema: Schema): z.infer<Schema> {
  const body = bodyOf(request);
  if (body.length === 0) throw refusals.invalidRequest('The request needs a JSON body.', null, 'invalid_json');
  // The admin schemas contain only plain numbers, and no unknown members are kept.
  return checked(parseJson(body, JSON.parse), schema);
}

/** The same for a value that is already parsed. @throws Refusal 400 with `param` */
export function checked<Schema extends z.ZodType>(value: unknown, schema: Schema): z.infer<Schema> {
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
  if (issue.code === 'invalid_type' && issue.input === undefined) throw refusals.missingParameter(name);
  throw refusals.invalidRequest(`'${name}' is not valid: ${issue.message}.`, name, code);
}
