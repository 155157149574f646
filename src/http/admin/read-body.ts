/** The JSON body of an admin request, checked by a schema: every error names the field. */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { parseJson } from '../../commands/parse-json.ts';
import { refusals } from '../../commands/refusal.ts';
import { checked } from '../api/validation.ts';
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
