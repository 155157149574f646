import { describe, expect, it } from 'vitest';
import { viewEventSkipped, viewRebuildRequested } from '../../src/events/catalogue/gateway.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

/** Analytics that cannot process the event at position 2. */
const why = 'event 0000000000000002 (lease.granted of lease-1) cannot be processed: it does not fit';
const gateway = withGateway({
  env: { LOG_DURABILITY: 'strict' },
  analytics: {
    address: () => undefined,
    status: () => ({ health: 'down', lagEvents: 4, lagMs: 1500, position: 1, error: why }),
  },
});
const read = async (path: string) => json(await gateway.fetch(path));

describe('GET /admin/log', () => {
  it('has the end of the log, its durability and its segments', async () => {
    const { id } = await json(await gateway.post('/admin/auth-keys', { name: 'counted' }));
    const log = await read('/admin/log');
    expect(log).toMatchObject({
      engine: 'files',
      state: 'ok',
      reason: null,
      durability: { level: 'strict', meaning: expect.stringContaining('on disk before the provider is called') },
      stream_index: 'ok',
      replica: null,
      segments: { count: 1, sealed: 0, oldest: { first: '0000000000000001', last: null, sealed: false } },
    });
    expect(log.segments.bytes).toBeGreaterThan(0);
    expect(log.segments.newest).toEqual([log.segments.oldest]);
    const { last } = await read(`/admin/log/stream?name=key-${id}`);
    expect(log.head >= last.position).toBe(true);
    expect(log.last_event_at >= last.at).toBe(true);
  });
});

describe('GET /admin/log/stream', () => {
  it('lists the events of a stream newest first, in pages, without their content', async () => {
    const { id } = await json(await gateway.post('/admin/auth-keys', { name: 'secret name' }));
    for (const name of ['second', 'third']) {
      await gateway.fetch(`/admin/auth-keys/${id}/name`, { method: 'PUT', json: { name } });
    }
    const stream = `key-${id}`;
    const page = await read(`/admin/log/stream?name=${stream}&limit=2`);
    expect(page).toMatchObject({
      name: stream,
      revision: '2',
      has_more: true,
      first: { revision: '0', actor: 'master' },
    });
    expect(page.events.map(({ revision }: { revision: string }) => revision)).toEqual(['2', '1']);
    expect(page.last).toEqual(page.events[0]);
    const rest = await read(`/admin/log/stream?name=${stream}&limit=2&before=1`);
    expect(rest.events).toEqual([page.first]);
    expect(rest.has_more).toBe(false);
    expect(JSON.stringify([page, rest])).not.toContain('secret name');
    expect((await read(`/admin/log/stream?name=${stream}&before=0`)).events).toEqual([]);
  });

  it('refuses a missing name, and returns 404 for an unknown stream', async () => {
    expect(await errorOf(await gateway.fetch('/admin/log/stream'), 400)).toMatchObject({
      code: 'missing_required_parameter',
      param: 'name',
    });
    expect((await errorOf(await gateway.fetch('/admin/log/stream?name=key-none'), 404)).code).toBe('stream_not_found');
  });
});

describe('GET /admin/views', () => {
  it('has each read model of the process with its lag', async () => {
    const { views } = await read('/admin/views');
    const keys = views.find(({ name }: { name: string }) => name === 'keys');
    expect(keys).toMatchObject({ about: 'managed keys', state: 'live', lag_seconds: 0, stopped_at: null, skipped: [] });
    expect(keys.lag_events).toBeLessThan(10);
    expect(keys.can_rebuild).toBe(true);
    for (const { name, about } of views) expect([name, about]).toEqual([name, expect.any(String)]);
  });
});

describe('POST /admin/views/{name}/skip', () => {
  it('records the skip of analytics once, with its actor, and states when it is in force', async () => {
    const analytics = async () => (await read('/admin/views')).views.at(-1);
    expect(await analytics()).toMatchObject({
      name: 'analytics',
      state: 'stopped',
      lag_seconds: 1.5,
      stopped_at: { position: '0000000000000002', type: 'lease.granted', stream: 'lease-1' },
    });
    for (let times = 0; times < 2; times++) {
      const body = { position: '0000000000000002', reason: 'a broken build' };
      const answer = await gateway.post('/admin/views/analytics/skip', body);
      expect([answer.status, (await json(answer)).in_force]).toEqual([202, false]);
    }
    const { skipped } = await analytics();
    expect(skipped).toEqual([
      expect.objectContaining({ position: '0000000000000002', reason: 'a broken build', by: 'master' }),
    ]);
    const { revision, last } = await read('/admin/log/stream?name=views-skipped');
    expect([revision, last.type, last.actor]).toEqual(['0', viewEventSkipped.type, 'master']);
  });

  it('refuses an event on which the read model has not stopped', async () => {
    const body = { position: '0000000000000001', reason: 'a mistake' };
    const answer = await gateway.post('/admin/views/keys/skip', body);
    expect(await errorOf(answer, 409)).toMatchObject({ code: 'view_not_stopped', param: 'position' });
    expect((await errorOf(await gateway.post('/admin/views/none/skip', body), 404)).code).toBe('view_not_found');
    const without = await gateway.post('/admin/views/keys/skip', { position: '0000000000000001' });
    expect((await errorOf(without, 400)).param).toBe('reason');
    expect((await read('/admin/views')).views[0].skipped).toEqual([]);
  });
});

describe('POST /admin/views/{name}/rebuild', () => {
  it('is recorded with its actor, and shown until the next start', async () => {
    const answer = await gateway.post('/admin/views/users/rebuild', { reason: 'to be sure' });
    expect(answer.status).toBe(202);
    const { position, message } = await json(answer);
    expect(message).toContain('next start');
    const { last } = await read('/admin/log/stream?name=views-rebuilds');
    expect(last).toMatchObject({ type: viewRebuildRequested.type, actor: 'master', position });
    const { views } = await read('/admin/views');
    const users = views.find(({ name }: { name: string }) => name === 'users');
    expect(users.rebuild_requested).toMatchObject({ by: 'master' });
    expect(users.state).toBe('live');
  });

  it('refuses read models that it cannot rebuild', async () => {
    expect((await errorOf(await gateway.post('/admin/views/none/rebuild', {}), 404)).code).toBe('view_not_found');
    const analytics = await gateway.post('/admin/views/analytics/rebuild', {});
    expect((await errorOf(analytics, 409)).code).toBe('view_not_rebuildable');
  });
});

describe('GET /admin/runtime/versions', () => {
  it('has the versions of the process that answers', async () => {
    const versions = await read('/admin/runtime/versions');
    expect(versions).toMatchObject({ node: process.version, log_format: 1 });
    expect(versions.gateway).toMatch(/^\d+\.\d+\.\d+/);
  });
});
