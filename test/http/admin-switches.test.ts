import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { configFrom } from '../config/load.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, user } from '../support/with-gateway.ts';

describe('without the admin endpoints', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ env: { ADMIN_ENDPOINTS_ENABLED: 'false' } });
  });
  afterAll(() => gateway.close());

  it.each([
    '/admin/access',
    '/admin/models',
    '/admin/runtime/config',
    '/admin/provider-credentials',
    '/admin/live/logs',
    '/admin/dashboard',
    '/admin/static/app.js',
    '/admin/api/v1/access',
    '/admin/api/v1/dashboard/config',
  ])('%s is not found', async (path) => {
    expect((await errorOf(await gateway.fetch(path), 404)).code).toBe('unknown_route');
  });

  it('all other routes work', async () => {
    const answer = await gateway.fetch('/v1/chat/completions', {
      json: { model: 'llamacpp/simulated-small', messages: user('Hello!') },
    });
    expect(answer.status).toBe(200);
    expect((await gateway.fetch('/metrics')).status).toBe(200);
  });
});

describe('the dashboard', () => {
  const notice = expect.stringContaining('ADMIN_ENDPOINTS_ENABLED');

  it('is off without the admin endpoints, with a notice for the operator', () => {
    const config = configFrom({ env: { ADMIN_ENDPOINTS_ENABLED: 'false' } });
    expect(config.admin).toEqual({ endpointsEnabled: false, uiEnabled: false });
    expect(config.notices).toContainEqual(notice);
  });

  it('is off without a notice when it was switched off as well', () => {
    const config = configFrom({ env: { ADMIN_ENDPOINTS_ENABLED: 'false', ADMIN_UI_ENABLED: 'false' } });
    expect(config.admin.uiEnabled).toBe(false);
    expect(config.notices).not.toContainEqual(notice);
  });

  it('can be switched off on its own', () => {
    expect(configFrom({ env: { ADMIN_UI_ENABLED: 'false' } }).admin).toEqual({
      endpointsEnabled: true,
      uiEnabled: false,
    });
    expect(configFrom({}).admin).toEqual({ endpointsEnabled: true, uiEnabled: true });
  });
});
