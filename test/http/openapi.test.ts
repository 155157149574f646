import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { servedApiDocument } from '../../scripts/api-document.ts';
import { collectRoutes, registerOpenApi } from '../../src/http/api/openapi.ts';
import type { Answered } from '../support/answered.ts';
import { bareServer } from '../support/bare-server.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';

const document: Answered = await servedApiDocument();
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

function operations(): { path: string; method: string; operation: Answered }[] {
  return Object.entries<Record<string, unknown>>(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );
}

describe('the OpenAPI document', () => {
  test('is a structurally valid OpenAPI 3.1 document', () => {
    expect(document.openapi).toMatch(/^3\.1\.\d+$/);
    expect(document.info).toMatchObject({
      title: expect.any(String),
      version: '1.0',
    });
    expect(JSON.parse(JSON.stringify(document))).toEqual(document);
    const ids = operations().map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const tags = document.tags.map(({ name }: { name: string }) => name);
    for (const { path, method, operation } of operations()) {
      const place = `${method} ${path}`;
      expect(path, place).toMatch(/^\//);
      expect(METHODS, place).toContain(method);
      expect(operation.summary, place).toEqual(expect.any(String));
      expect(tags, place).toEqual(expect.arrayContaining(operation.tags));
      const parameters: { name: string; in: string; required?: boolean; schema: object }[] = operation.parameters ?? [];
      const inPath = parameters.filter((parameter) => parameter.in === 'path');
      expect(inPath.map(({ name }) => `{${name}}`).sort(), place).toEqual((path.match(/\{\w+\}/g) ?? []).sort());
      expect(
        inPath.every(({ required }) => required === true),
        place,
      ).toBe(true);
      const names = parameters.map((parameter) => `${parameter.in} ${parameter.name}`);
      expect(new Set(names).size, place).toBe(names.length);
      for (const parameter of parameters) {
        expect(['path', 'query', 'header'], place).toContain(parameter.in);
        expect(parameter.schema, place).toEqual(expect.any(Object));
      }
      const statuses = Object.keys(operation.responses);
      expect(
        statuses.some((status) => status.startsWith('2') || status === '101'),
        place,
      ).toBe(true);
      for (const status of statuses) {
        expect(status, place).toMatch(/^[1-5]\d\d$/);
        expect(operation.responses[status].description, `${place} ${status}`).toMatch(/./);
      }
      if (operation.requestBody !== undefined) {
        expect(Object.keys(operation.requestBody.content), place).not.toHaveLength(0);
      }
    }
  });

  test('has no dangling reference', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(
      ([, reference = '']) => reference,
    );
    expect(references.length).toBeGreaterThan(0);
    for (const reference of references) {
      const steps = reference.replace(/^#\//, '').split('/');
      expect(reference).toMatch(/^#\//);
      expect(
        steps.reduce((at, step) => at?.[step], document),
        reference,
      ).toBeDefined();
    }
  });

  test('lists 401, 403, 400 and 409 of the admin routes where they apply', () => {
    const admin = operations().filter(({ operation }) => operation.tags.includes('admin'));
    expect(admin.length).toBeGreaterThan(40);
    for (const { path, method, operation } of admin) {
      const place = `${method} ${path}`;
      const names: string[] = (operation.parameters ?? []).map(({ name }: { name: string }) => name);
      const takesWords = operation.requestBody !== undefined || names.length > 0;
      expect(Object.keys(operation.responses), place).toEqual(
        expect.arrayContaining([
          '401',
          '403',
          ...(takesWords ? ['400'] : []),
          ...(names.includes('If-Match') ? ['409'] : []),
        ]),
      );
    }
  });

  test('requires a key except on open routes', () => {
    const open = operations().filter(({ operation }) => operation.security?.length === 0);
    expect(open.map(({ path }) => path).sort()).toEqual([
      '/admin/dashboard',
      '/admin/dashboard/{path}',
      '/admin/mcp-servers/oauth/callback',
      '/admin/static/{path}',
      '/health',
      '/health/ready',
      '/openapi.json',
    ]);
    expect(document.security).toEqual([{ bearer: [] }]);
    expect(document.components.securitySchemes.bearer).toMatchObject({ type: 'http', scheme: 'bearer' });
    for (const { path, operation } of operations()) {
      const asksForKey = operation.security === undefined;
      expect('401' in operation.responses, path).toBe(asksForKey);
    }
  });

  test('describes requests by the schemas that validate them, and errors by the envelope of their dialect', () => {
    const body = (path: string) => document.paths[path].post.requestBody.content['application/json'].schema;
    expect(body('/v1/chat/completions').required).toContain('messages');
    expect(body('/v1/responses').properties).toHaveProperty('previous_response_id');
    expect(body('/v1/embeddings').required).toEqual(['model', 'input']);
    expect(document.components.schemas.Error.properties.error.required).toEqual(['code', 'message', 'param', 'type']);
    for (const { path, operation } of operations()) {
      for (const [status, answer] of Object.entries<Record<string, unknown>>(operation.responses)) {
        if (Number(status) < 400 || /^(ready|dashboard|dashboardPath)$/.test(operation.operationId)) continue;
        const envelope = path.startsWith('/v1/messages') ? 'MessagesError' : 'Error';
        expect(answer['content']).toEqual({
          'application/json': { schema: { $ref: `#/components/schemas/${envelope}` } },
        });
      }
    }
  });
});

describe('a running gateway', () => {
  let gateway: TestGateway;

  beforeAll(async () => {
    gateway = await startTestGateway({ env: { METRICS_ENABLED: 'true' } });
  });
  afterAll(() => gateway.close());

  test('serves the document without a key', async () => {
    const answer = await fetch(`${gateway.url}/openapi.json`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await answer.json()).toEqual(document);
  });
});

describe('a server with a route without a summary', () => {
  test('does not start', async () => {
    const app = bareServer();
    app.decorate('declaredRoutes', collectRoutes(app));
    registerOpenApi(app);
    app.get('/silent', () => 'x');
    await expect(app.ready()).rejects.toThrow('GET /silent has no summary');
  });
});
