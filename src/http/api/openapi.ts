/** The OpenAPI 3.1 document, built from the declarations of the registered routes. */
import type { FastifyInstance, RouteOptions } from 'fastify';
import { z } from 'zod';
import * as answers from '../answer-schemas.ts';
import { type AnswerSchema, type JsonSchema, jsonAnswer, publicRoute, type Routes, type Tag } from './route-schema.ts';

/** The error statuses of a route: those that follow from its declaration, and those that it names. */
const errorTexts: Readonly<Record<number, string>> = {
  400: 'The request is not valid',
  401: 'The request has no valid key',
  403: 'The key does not permit this request',
  404: 'The object does not exist, or the key does not see it',
  405: 'The address does not have this method; `Allow` lists its methods',
  408: 'The request did not arrive in time',
  409: 'The object was changed at the same time, or the idempotency key belongs to another request',
  413: 'The request body is too large',
  415: 'The encoding of the request body is not supported; `Accept-Encoding` lists the supported ones',
  429: 'A rate limit or a budget is exhausted; `Retry-After` says when to try again',
  499: 'The client closed the request',
  500: 'An internal error',
  501: 'The provider does not support the operation',
  502: 'The provider could not be reached, or its answer was not usable',
  503: 'The gateway cannot serve the request now: the log cannot be written, a provider is unavailable, the feature is off, or the gateway stops',
  504: 'The provider did not answer in time',
};

type Declared = Pick<RouteOptions, 'method' | 'url' | 'config' | 'schema'>;

const READING = new Set(['GET', 'HEAD', 'OPTIONS']);

/** In ascending order. A request is refused with 400 also for its query and headers (`checkQuery`). */
export function errorsOf({ method, config, schema }: Declared): readonly number[] {
  const statuses = new Set(schema?.errors ?? []);
  const access = config?.access;
  // Also on a route for every key: a web page of another site is refused (`createCrossSiteCheck`).
  if (access !== 'public') for (const status of [400, 401, 403, 503]) statuses.add(status);
  if (config?.ifMatch !== undefined) statuses.add(409);
  const writes = [method].flat().some((one) => !READING.has(one));
  if (writes) for (const status of [413, 415]) statuses.add(status);
  if (writes && access === 'any-key') statuses.add(429);
  return [...statuses].sort((a, b) => a - b);
}

export type ApiDocument = Readonly<Record<string, unknown>> & {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, unknown>>>>>>;
};

/** A registered route. */
export type Registered = Pick<RouteOptions, 'method' | 'url' | 'config' | 'schema'>;

const tags: Readonly<Record<Tag, string>> = {
  models: 'Model requests',
  responses: 'Stored responses',
  realtime: 'Sessions over a WebSocket or WebRTC',
  conversations: 'Items that responses of any provider share',
  files: 'Files and batches, stored at their providers',
  passthrough: "A provider's own API",
  mcp: 'Tools of MCP servers',
  admin: 'Administration, reports and the record',
  operations: 'Health, metrics, the dashboard and this document',
};

/** Header of every request: its id in the answer, in the record and at the provider. */
const requestId = z.string().max(200).describe('Id of the request: default is a new one');
const ifMatch = z.string().describe('The `ETag` of an answer: 409 when the object was changed since');
const eTag = { description: 'Revision of the object', schema: { type: 'string' } };

function apiDocument(routes: readonly Registered[], basePath: string): ApiDocument {
  const paths: Record<string, Record<string, JsonSchema>> = {};
  for (const route of routes) {
    const path = pathOf(route);
    const methods = [route.method].flat();
    for (const method of methods) {
      paths[path] = { ...paths[path], [method.toLowerCase()]: operation(route, method, methods.length > 1) };
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Chancery',
      // Version of the API, not of the program.
      version: '1.0',
      description: "An AI gateway with OpenAI's /v1 API, many model providers, and a complete record.",
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: basePath || '/' }],
    security: [{ bearer: [] }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: Object.fromEntries(Object.entries(paths).sort(([a], [b]) => (a < b ? -1 : 1))),
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'The master key or a managed key; `x-api-key` is accepted too',
        },
      },
      schemas: {
        Error: schemaOf(answers.errorEnvelope, 'output'),
        MessagesError: schemaOf(answers.messagesErrorSchema, 'output'),
      },
    },
  };
}

/** In OpenAPI's form: `/v1/responses/{id}`, `/p/{provider}/{path}`. */
function pathOf({ url, schema }: Registered): string {
  const names = schema?.params instanceof z.ZodObject ? Object.keys(schema.params.shape) : [];
  return url.replace(/:(\w+)/g, '{$1}').replace('*', `{${names.find((name) => !url.includes(`:${name}`)) ?? 'path'}}`);
}

function operation(route: Registered, method: string, isOneOfSeveral: boolean): JsonSchema {
  const { schema = {}, config, url } = route;
  const id = schema.operationId ?? operationIdOf(method, url);
  const parameters = [
    ...describedIn('path', schema.params),
    ...describedIn('query', schema.querystring),
    ...Object.entries({
      ...(url.startsWith('/v1/') ? { 'X-Request-ID': requestId } : {}),
      ...schema.requestHeaders,
      ...(config?.ifMatch === undefined ? {} : { 'If-Match': ifMatch }),
    }).map(([name, one]) => parameter('header', name, schemaOf(one, 'input'), false)),
  ];
  const hasBody = (schema.body ?? schema.bodyType) !== undefined && !['GET', 'HEAD'].includes(method);
  return {
    operationId: isOneOfSeveral ? `${id}_${method.toLowerCase()}` : id,
    summary: schema.summary,
    ...(schema.description === undefined ? {} : { description: schema.description }),
    tags: [schema.tag ?? 'admin'],
    'x-access': config?.access,
    ...(config?.access === 'public' ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(hasBody ? { requestBody: requestBody(schema) } : {}),
    responses: responsesOf(route),
  };
}

/** `GET /admin/auth-keys/:id` becomes `getAdminAuthKeysById`. */
function operationIdOf(method: string, url: string): string {
  const words = url.replace(/:(\w+)/g, 'by-$1').split(/[^A-Za-z0-9]+/);
  return method.toLowerCase() + words.map((one) => one.charAt(0).toUpperCase() + one.slice(1)).join('');
}

function describedIn(place: 'path' | 'query', schema: unknown): JsonSchema[] {
  if (!(schema instanceof z.ZodType)) return [];
  const { properties = {} } = schemaOf(schema, 'input') as { properties?: Record<string, JsonSchema> };
  return Object.entries(properties).map(([name, one]) => parameter(place, name, one, place === 'path'));
}

function parameter(place: string, name: string, schema: JsonSchema, required: boolean): JsonSchema {
  const { description, ...rest } = schema;
  return { name, in: place, description, ...(required ? { required } : {}), schema: rest };
}

function requestBody({ body, bodyType, example }: NonNullable<Registered['schema']>): JsonSchema {
  const isSchema = body instanceof z.ZodType;
  const content = {
    schema: isSchema ? schemaOf(body, 'input') : (body ?? {}),
    ...(example === undefined ? {} : { example }),
  };
  const required = isSchema ? !body.safeParse(undefined).success : body !== undefined;
  return { required, content: { [bodyType ?? 'application/json']: content } };
}

function responsesOf(route: Registered): JsonSchema {
  const { schema, config, url } = route;
  const responses: Record<string, JsonSchema> = {};
  for (const [status, { description, content }] of Object.entries(answersOf(route))) {
    const described = Object.entries(content ?? {}).map(([type, { schema: one }]) => [
      type,
      { schema: one instanceof z.ZodType ? schemaOf(one, 'output') : one },
    ]);
    responses[status] = {
      description,
      ...(config?.etag === true ? { headers: { ETag: eTag } } : {}),
      ...(described.length === 0 ? {} : { content: Object.fromEntries(described) }),
    };
  }
  const envelope = url.startsWith('/v1/messages') ? 'MessagesError' : 'Error';
  for (const status of errorsOf({ ...route, schema })) {
    responses[status] ??= {
      description: errorTexts[status] ?? 'An error',
      content: { 'application/json': { schema: { $ref: `#/components/schemas/${envelope}` } } },
    };
  }
  return responses;
}

/** The declared answers of a route by status. */
export function answersOf({ schema }: Registered): Readonly<Record<string, AnswerSchema>> {
  return (schema?.response ?? {}) as Readonly<Record<string, AnswerSchema>>;
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  // OpenAPI 3.1 schemas are JSON Schema 2020-12 by default, so they omit `$schema`.
  const { $schema, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return rest;
}

const getDocument = publicRoute('openapi', 'This document', {
  tag: 'operations',
  response: { 200: jsonAnswer('An OpenAPI 3.1 document', { type: 'object' }) },
});

/** `GET /openapi.json`, built at the first request. A server with a route without a summary does not start. */
export function registerOpenApi(app: Routes): void {
  let built: ApiDocument | undefined;
  app.addHook('onReady', async () => {
    const silent = app.declaredRoutes.find(({ schema }) => schema?.summary === undefined);
    if (silent !== undefined) throw new Error(`${[silent.method].flat().join(', ')} ${silent.url} has no summary`);
  });
  app.get('/openapi.json', getDocument, () => {
    built ??= apiDocument(app.declaredRoutes, app.basePath);
    return built;
  });
}

/**
 * Collects the routes that are registered on the instance from now on, without the HEAD routes that Fastify adds and the
 * older addresses of the admin API.
 */
export function collectRoutes(app: Pick<FastifyInstance, 'addHook'>): readonly Registered[] {
  const routes: Registered[] = [];
  app.addHook('onRoute', ({ method, url, config = {}, schema = {} }) => {
    const isAdded = method === 'HEAD' && routes.some((one) => one.url === url && [one.method].flat().includes('GET'));
    if (isAdded || url.startsWith('/admin/api/v1/')) return;
    routes.push({ method, url, config, schema });
  });
  return routes;
}
