/**
 * Compares every JSON answer of the gateways in a test with the schema that its route declares: status, members and
 * types. Differences are thrown when the test file ends. Loaded for every test file (`vitest.config.ts`).
 */
import { subscribe } from 'node:diagnostics_channel';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { afterAll } from 'vitest';

/** Of the file that runs: files of one process share their modules, but this one is loaded for each of them. */
const shared = globalThis as { differencesOfAnswers?: Set<string> };
const isFirst = shared.differencesOfAnswers === undefined;
shared.differencesOfAnswers ??= new Set<string>();
const differences = shared.differencesOfAnswers;
differences.clear();

if (isFirst) subscribe('fastify.initialization', compareAnswers);

function compareAnswers(message: unknown): void {
  const { fastify } = message as { fastify: FastifyInstance };
  fastify.addHook('onSend', async (_request, reply, payload) => {
    const { method, headers, routeOptions, refusal } = reply.request;
    // A preflight is answered by the server, for every route.
    if (method === 'OPTIONS' && headers['access-control-request-method'] !== undefined) return payload;
    // So is a request for a route that is at another address.
    if (refusal?.code === 'unknown_route') return payload;
    if (routeOptions.schema?.summary === undefined || method === 'HEAD') return payload;
    const text = payload instanceof Readable && isJson(reply) ? await textOf(payload) : payload;
    const difference = await differenceOf(reply, text);
    if (difference !== undefined) differences.add(difference);
    return text;
  });
}

afterAll(() => {
  if (differences.size > 0) throw new Error(`answers that differ from their schema:\n${[...differences].join('\n')}`);
});

const isJson = (reply: FastifyReply) => String(reply.getHeader('content-type')).startsWith('application/json');

async function textOf(payload: Readable): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of payload) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces).toString();
}

let declarations: ReturnType<typeof importDeclarations> | undefined;

/** Not before the first answer is compared: most test files start no gateway. */
async function importDeclarations() {
  const [{ z }, { answersOf, errorsOf }] = await Promise.all([import('zod'), import('../../src/http/api/openapi.ts')]);
  return { z, answersOf, errorsOf };
}

async function differenceOf(reply: FastifyReply, payload: unknown): Promise<string | undefined> {
  declarations ??= importDeclarations();
  const { z, answersOf, errorsOf } = await declarations;
  const { schema, config, url = '', method } = reply.request.routeOptions;
  const status = reply.statusCode;
  const place = `${reply.request.method} ${url} ${status}`;
  const route = { method: method ?? 'GET', url, config, schema };
  const declared = answersOf(route)[String(status)];
  if (declared === undefined) {
    return status === 500 || errorsOf(route).includes(status) ? undefined : `${place}: the status is not declared`;
  }
  const body = declared.content?.['application/json']?.schema;
  if (!(body instanceof z.ZodType) || !isJson(reply) || typeof payload !== 'string') return undefined;
  const value: unknown = JSON.parse(payload);
  const parsed = body.safeParse(value);
  if (!parsed.success) return `${place}: ${z.prettifyError(parsed.error).slice(0, 500)}`;
  // Parsing drops members that are not in the schema.
  return same(parsed.data, value)
    ? undefined
    : `${place}: members that the schema does not have: ${payload.slice(0, 800)}`;
}

function same(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b);
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => same((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]));
}
