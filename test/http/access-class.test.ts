/** Every route declares who may call it. */
import type { RouteOptions } from 'fastify';
import { afterEach, describe, expect, it } from 'vitest';
import { everything } from '../../src/commands/visibility.ts';
import type { AccessClass } from '../../src/http/auth.ts';
import { createServer } from '../../src/http/server.ts';
import { unbounded } from '../../src/json/body-scan.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const app of open.splice(0)) await app.close();
});

function server() {
  const app = createServer({
    bodyMemoryBytes: 16 * 1024 * 1024,
    bodyLimits: { model: 1000, audio: 1000, image: 1000, file: 1000, other: 1000 },
    bodyBounds: unbounded,
    maxHeaderBytes: 16_384,
    headersTimeoutMs: 1000,
    requestTimeoutMs: 1000,
    authenticator: {
      authenticate: () => ({ actor: 'master', authMethod: 'no_key', visibility: everything }),
      authenticateScraper: () => undefined,
    },
    recorder: { answered: () => {}, refused: async () => undefined },
    admitRequest: () => {},
    isStopping: () => false,
    logError: () => {},
  });
  open.push(app);
  return app;
}

const route = (url: string, access?: AccessClass): RouteOptions => ({
  method: 'GET',
  url,
  handler: () => 'done',
  ...(access === undefined ? {} : { config: { access } }),
});

describe('a route without an access class', () => {
  it.each(['/v1/new', '/p/new', '/admin/new', '/new'])('is not registered at %s', (url) => {
    expect(() => server().route(route(url))).toThrow(`GET ${url} does not declare who may call it`);
  });

  it('keeps the gateway from starting when a plugin registers it later', async () => {
    const app = server();
    app.register(async (scope) => {
      scope.get('/v1/new', () => 'done');
    });
    await expect(app.ready()).rejects.toThrow('GET /v1/new does not declare who may call it');
  });
});

describe('a route with an access class of another part of the API', () => {
  it.each([
    ['/admin/new', 'any-key'],
    ['/admin/new', 'passthrough'],
    ['/admin/api/v1/new', 'metrics'],
    ['/v1/new', 'scoped-admin'],
    ['/p/new', 'global-admin'],
  ] as const)('is not added at %s as %s', (url, access) => {
    expect(() => server().route(route(url, access))).toThrow(`is declared as ${access}`);
  });
});

it('a HEAD route has the class of its GET route', async () => {
  const app = server();
  const classes: [unknown, unknown][] = [];
  app.addHook('onRoute', ({ method, config }) => {
    classes.push([method, config?.access]);
  });
  app.get('/v1/new', { config: { access: 'any-key' } }, () => 'done');
  await app.ready();
  expect(classes).toEqual([
    ['GET', 'any-key'],
    ['HEAD', 'any-key'],
  ]);
});
