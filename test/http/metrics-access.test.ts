/** Access to `/metrics`. */
import { describe, expect, it } from 'vitest';
import { newKey } from '../support/managed-keys.ts';
import { errorOf, withGateway } from '../support/with-gateway.ts';

describe('GET /metrics', () => {
  const gateway = withGateway({ env: { METRICS_KEY: 'scraper' } });
  const withKey = (key: string, path = '/metrics') =>
    fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${key}` } });

  it('is 401 without a key and with a wrong one', async () => {
    expect(await errorOf(await fetch(`${gateway.url}/metrics`), 401)).toMatchObject({ code: 'missing_credentials' });
    for (const wrong of ['wrong', 'scrapeR', 'scraper2'])
      expect(await errorOf(await withKey(wrong), 401)).toMatchObject({ code: 'invalid_api_key' });
  });

  it.each([
    ['a plain key', {}],
    ['a key that is bound to a path', { user_path: '/team' }],
    ['an administrator of a subtree', { user_path: '/team', dashboard_access: true }],
  ])('is 403 for %s', async (_, body) => {
    const { value } = await newKey(gateway, body);
    expect(await errorOf(await withKey(value), 403)).toMatchObject({ code: 'metrics_denied' });
  });

  it('is served to the master key, to global administrators and to METRICS_KEY', async () => {
    const { value } = await newKey(gateway, { dashboard_access: true });
    for (const key of ['test-master-key', value, 'scraper']) {
      const answer = await withKey(key);
      expect(answer.status).toBe(200);
      expect(await answer.text()).toContain('gateway_requests_in_flight');
    }
    const byHeader = await fetch(`${gateway.url}/metrics`, { headers: { 'x-api-key': 'scraper' } });
    expect(byHeader.status).toBe(200);
  });

  it('is the only route that METRICS_KEY opens', async () => {
    for (const path of ['/v1/models', '/admin/auth-keys', '/p/llamacpp/v1/models'])
      await errorOf(await withKey('scraper', path), 401);
  });
});

describe('GET /metrics with METRICS_PUBLIC', () => {
  const gateway = withGateway({ env: { METRICS_PUBLIC: 'true' } });

  it('is served without a key', async () => {
    for (const init of [{}, { headers: { authorization: 'nonsense' } }])
      expect((await fetch(`${gateway.url}/metrics`, init)).status).toBe(200);
  });
});
