import { describe, expect, it } from 'vitest';
import { withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();

describe('answers of the admin API', () => {
  it.each([
    ['/admin/auth-keys', 200],
    ['/admin/audit/log?limit=1', 200],
    ['/admin/api/v1/auth-keys', 200],
    ['/admin/%61pi/v1/auth-keys', 200],
    ['/admin/audit/detail?log_id=none', 404],
    ['/admin/audit/log?limit=0x', 400],
  ])('are kept by no cache and have the type that they state: %s', async (path, status) => {
    const answer = await gateway.fetch(path);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  });
});
