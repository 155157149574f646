/** The OpenAPI 3.1 description, built from the zod schemas that check the requests. */

import { z } from 'zod';
import * as answers from './answer-schemas.ts';
import { apiDocument } from './api/openapi.ts';
import { jsonAnswer, type Routes } from './api/route-schema.ts';
import type { Operation } from './openapi-operation.ts';
import { operations } from './openapi-operations.ts';

type Json = Record<string, unknown>;

const STATUS_TEXT: Record<number, string> = {
  200: 'OK',
  400: 'The request is not valid.',
  401: 'No key, or not a valid one.',
  403: 'The key may not do this, or not here.',
  405: 'The address does not have the method; `Allow` names those that it has.',
  404: 'There is no such thing, or it is not for this caller.',
  408: 'The request did not arrive in time.',
  409: 'Others changed the same thing at the same time, or the key was used for something else.',
  413: 'The request body is too large.',
  415: 'The request body has an encoding that is not known; `Accept-Encoding` names those that are.',
  429: 'Too many requests.',
  501: 'The provider cannot do this, and the gateway cannot do it in its place.',
  502: 'The provider could not be reached, or gave no usable answer.',
  503: 'Not available now: the log cannot be written, the provider is out of order, or the feature is switched off.',
  504: 'The provider took too long.',
};

let built: Json | undefined;

/** Built once, at the first call. */
export function openApiDocument(): Json {
  built ??= {
    openapi: '3.1.0',
    info: {
      title: 'Chancery',
      // Version of the API, not of the program.
      version: '1.0',
      description: "An AI gateway: OpenAI's /v1 in front, many model providers behind, every byte on the record.",
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    tags: [
      { name: 'models', description: 'Model requests' },
      { name: 'responses', description: 'Stored responses' },
      { name: 'conversations', description: 'Items that responses of any provider share' },
      { name: 'files', description: 'Files and batches, where providers keep them' },
      { name: 'passthrough', description: "A provider's own API" },
      { name: 'admin', description: 'What happens and has happened' },
      { name: 'operations', description: 'Health, metrics, this description' },
    ],
    paths: paths(),
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'The master key or a managed key. `x-api-key` works too.',
        },
      },
      schemas: {
        Error: schemaOf(answers.errorEnvelope, 'output'),
        MessagesError: schemaOf(answers.messagesErrorSchema, 'output'),
      },
    },
  };
  return built;
}

function paths(): Json {
  const byPath: Record<string, Json> = {};
  for (const operation of operations) {
    for (const method of operation.methods) {
      byPath[operation.path] = { ...byPath[operation.path], [method.toLowerCase()]: describe(operation, method) };
    }
  }
  return byPath;
}

function describe(operation: Operation, method: string): Json {
  const {
    operationId,
    methods,
    summary,
    description,
    tag,
    parameters = [],
    request,
    success,
    errors,
    errorSchema = 'Error',
    open,
  } = operation;
  const inPath = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    description: operation.pathParameters?.[name],
    schema: { type: 'string' },
  }));
  const inQueryOrHeader = parameters.map(({ schema, ...rest }) => ({ ...rest, schema: schemaOf(schema, 'input') }));
  const responses: Json = { [String(success.status ?? 200)]: answer(success) };
  for (const status of errors) responses[String(status)] = errorAnswer(status, errorSchema);
  for (const [status, body] of Object.entries(operation.otherAnswers ?? {})) responses[status] = answer(body);
  return {
    operationId: methods.length === 1 ? operationId : `${operationId}_${method.toLowerCase()}`,
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [tag],
    ...(open === true ? { security: [] } : {}),
    ...(inPath.length + inQueryOrHeader.length === 0 ? {} : { parameters: [...inPath, ...inQueryOrHeader] }),
    ...(request === undefined || method === 'GET' || method === 'HEAD' ? {} : { requestBody: requestBody(request) }),
    responses,
  };
}

function requestBody(request: NonNullable<Operation['request']>): Json {
  const schema = request.schema === 'any' ? {} : schemaOf(request.schema, 'input');
  const type = request.type ?? (request.schema === 'any' ? '*/*' : 'application/json');
  return { required: request.required, content: { [type]: { schema } } };
}

function answer({ description, content }: Operation['success']): Json {
  const types = Object.entries(content ?? {});
  if (types.length === 0) return { description };
  const described = types.map(([type, body]) => [
    type,
    { schema: body instanceof z.ZodType ? schemaOf(body, 'output') : body },
  ]);
  return { description, content: Object.fromEntries(described) };
}

function errorAnswer(status: number, schema: string): Json {
  return {
    description: STATUS_TEXT[status] ?? 'An error.',
    content: { 'application/json': { schema: { $ref: `#/components/schemas/${schema}` } } },
  };
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  // OpenAPI 3.1 schemas are JSON Schema 2020-12 by default, so they omit `$schema`.
  const { $schema, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}

export interface RegisteredRoute {
  readonly method: string | readonly string[];
  /** In Fastify's form: `/v1/responses/:id`, `/p/:provider/*`. */
  readonly url: string;
}

/** The routes that only the description or only the server has, as `METHOD /path`. */
export function missingFromOpenApi(
  routes: readonly RegisteredRoute[],
  document = openApiDocument(),
): { undocumented: string[]; unregistered: string[] } {
  const documented = new Set<string>();
  for (const [path, item] of Object.entries(
    z.record(z.string(), z.record(z.string(), z.unknown())).parse(document.paths),
  )) {
    for (const method of Object.keys(item)) documented.add(`${method.toUpperCase()} ${shape(path)}`);
  }
  const registered = new Set<string>();
  for (const { method, url } of routes) {
    // The older prefix of the admin API is not documented.
    if (url.startsWith('/admin/api/v1/')) continue;
    for (const one of [method].flat()) registered.add(`${one} ${shape(url)}`);
  }
  // Every GET also answers HEAD, which needs no description of its own.
  const isOwn = (route: string) =>
    !route.startsWith('HEAD ') || documented.has(route) || !documented.has(route.replace('HEAD', 'GET'));
  return {
    undocumented: [...registered].filter((route) => isOwn(route) && !documented.has(route)).sort(),
    unregistered: [...documented].filter((route) => !registered.has(route)).sort(),
  };
}

/** The path without the names of its parameters, for comparison. */
function shape(path: string): string {
  return path.replace(/:\w+|\*|\{\w+\}/g, '{}');
}

const getDocument = {
  operationId: 'openapi',
  summary: 'This document',
  tag: 'operations',
  response: { 200: jsonAnswer('An OpenAPI 3.1 document', { type: 'object' }) },
} as const;

export function registerOpenApi(app: Routes): void {
  app.get('/openapi.json', { config: { access: 'public' }, schema: getDocument }, async (_request, reply) => {
    return reply.type('application/json; charset=utf-8').send(merged(app));
  });
}

/** Declared routes, and those that are still described apart from their declaration. */
function merged(app: Routes): Json {
  const declared = apiDocument(app.declaredRoutes);
  const apart = openApiDocument() as { paths: Record<string, object> };
  const paths: Record<string, object> = { ...apart.paths };
  for (const [path, item] of Object.entries(declared.paths)) paths[path] = { ...paths[path], ...item };
  return { ...declared, paths };
}
