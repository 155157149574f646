/** The declarations of the routes of a running gateway. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { Registered } from '../../src/http/api/openapi.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';

const servers: FastifyInstance[] = [];
let gateway: TestGateway;
let routes: readonly Registered[] = [];

beforeAll(async () => {
  const watch = (message: unknown) => void servers.push((message as { fastify: FastifyInstance }).fastify);
  subscribe('fastify.initialization', watch);
  gateway = await startTestGateway({ env: { METRICS_ENABLED: 'true' } });
  unsubscribe('fastify.initialization', watch);
  routes = servers.find((server) => server.hasDecorator('declaredRoutes'))?.declaredRoutes ?? [];
});
afterAll(() => gateway.close());

const nameOf = ({ method, url }: Registered) => `${[method].flat().join(', ')} ${url}`;

it('have an example for every JSON body, and it satisfies the schema of the body', () => {
  const bodies = routes.filter(({ schema }) => schema?.body instanceof z.ZodType);
  expect(bodies.length).toBeGreaterThan(35);
  const wrong = bodies.flatMap((route) => {
    const { body, example } = route.schema ?? {};
    const read = (body as z.ZodType).safeParse(example);
    if (example !== undefined && read.success) return [];
    return [`${nameOf(route)}: ${example === undefined ? 'no example' : read.error?.message}`];
  });
  expect(wrong).toEqual([]);
});

it('have strict bodies on admin routes: an unknown member is refused', () => {
  const admin = routes.filter(({ url, schema }) => url.startsWith('/admin/') && schema?.body instanceof z.ZodType);
  expect(admin.length).toBeGreaterThan(25);
  const lenient = admin.filter(({ schema }) => {
    const { body, example } = schema ?? {};
    return (body as z.ZodType).safeParse({ ...(example as object), no_such_member: 1 }).success;
  });
  expect(lenient.map(nameOf)).toEqual([]);
});

it('have an answer with a schema or a media type, and a description of it', () => {
  const undescribed = routes.filter(({ schema }) => {
    const answers = Object.values((schema?.response ?? {}) as Record<string, { description?: string }>);
    return answers.length === 0 || answers.some(({ description = '' }) => description === '');
  });
  expect(undescribed.map(nameOf)).toEqual([]);
});
