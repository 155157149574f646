import { afterAll, describe, expect, it, test } from 'vitest';
import {
  durationText,
  type ListingFacts,
  type ProviderFacts,
  providersStatus,
} from '../../src/http/admin/models/providers-status.ts';
import { startTestGateway } from '../support/gateway.ts';
import { eventsUntil, json, withGateway } from '../support/with-gateway.ts';

const listing: ListingFacts = {
  state: 'available',
  models: 3,
  remembered: false,
  allowlist: false,
  lastAttemptAt: Date.UTC(2026, 0, 2),
  lastListedAt: Date.UTC(2026, 0, 2),
  lastError: undefined,
};

function provider(
  name: string,
  of: Partial<ListingFacts> | undefined,
  more: Partial<ProviderFacts> = {},
): ProviderFacts {
  return {
    name,
    type: 'vllm',
    baseUrl: 'http://host/v1',
    apiVersion: undefined,
    configuredModels: [],
    resilience: undefined,
    listing: of === undefined ? undefined : { ...listing, ...of },
    circuit: 'closed',
    rememberedListedAt: undefined,
    problem: undefined,
    ...more,
  };
}

const never = { state: 'unknown', models: 0, lastAttemptAt: undefined, lastListedAt: undefined } as const;
const down = { state: 'unavailable', lastError: 'it could not be reached' } as const;

describe('the status of a provider', () => {
  test.each<[string, Partial<ListingFacts> | undefined, Partial<ProviderFacts>, string, string]>([
    ['its models are known', {}, {}, 'healthy', 'Healthy'],
    ['its models are an allowlist', { ...never, models: 1, allowlist: true }, {}, 'healthy', 'Healthy'],
    ['its list failed, and there is an older one', down, {}, 'degraded', 'Degraded'],
    ['its list failed, and there is no older one', { ...down, models: 0 }, {}, 'unhealthy', 'Unhealthy'],
    ['its breaker is open', {}, { circuit: 'open' }, 'degraded', 'Degraded'],
    ['its breaker is half open', {}, { circuit: 'half_open' }, 'healthy', 'Healthy'],
    ['its models are from an earlier run', { ...never, models: 2, remembered: true }, {}, 'degraded', 'Starting'],
    ['its models were not listed yet', never, {}, 'degraded', 'Starting'],
    [
      'it has models of the configuration, and was not listed yet',
      never,
      { configuredModels: ['a'] },
      'degraded',
      'Configured',
    ],
    ['its list is empty', { models: 0 }, {}, 'degraded', 'Unknown'],
    ['it cannot be set up', undefined, { problem: 'no key' }, 'unhealthy', 'Unhealthy'],
  ])('%s', (_when, of, more, status, label) => {
    const [reported] = providersStatus([provider('one', of, more)]).providers;
    expect(reported).toMatchObject({ status, status_label: label });
    expect(reported?.status_reason).toMatch(/^[A-Za-z].*/);
  });

  test.each<[string, ProviderFacts[], string]>([
    ['there is no provider', [], 'degraded'],
    ['all are healthy', [provider('a', {}), provider('b', {})], 'healthy'],
    ['none is healthy', [provider('a', { ...down, models: 0 }), provider('b', undefined)], 'unhealthy'],
    ['some are healthy', [provider('a', {}), provider('b', undefined)], 'degraded'],
  ])('is summarised when %s', (_when, facts, overall) => {
    const { summary } = providersStatus(facts);
    expect(summary).toMatchObject({ total: facts.length, overall_status: overall });
    expect(summary.healthy + summary.degraded + summary.unhealthy).toBe(summary.total);
  });

  test('are sorted by name', () => {
    const names = providersStatus([provider('b', {}), provider('a', {})]).providers.map(({ name }) => name);
    expect(names).toEqual(['a', 'b']);
  });
});

test.each([
  [0, '0s'],
  [10, '10ms'],
  [1000, '1s'],
  [1500, '1.5s'],
  [90_000, '1m30s'],
  [3_600_000, '1h0m0s'],
])('%i ms is %s', (ms, text) => {
  expect(durationText(ms)).toBe(text);
});

describe('GET /admin/providers/status', () => {
  const gateway = withGateway();
  const other = startTestGateway({
    simulated: false,
    env: { VLLM_BASE_URL: 'http://127.0.0.1:9/v1', VLLM_API_KEY: 'sk-hidden' },
  });
  afterAll(async () => (await other).close());

  it('returns the configuration and models of a healthy provider', async () => {
    const { summary, providers } = await json(await gateway.fetch('/admin/providers/status'));
    expect(summary).toEqual({ total: 1, healthy: 1, degraded: 0, unhealthy: 0, overall_status: 'healthy' });
    expect(providers).toEqual([
      {
        name: 'llamacpp',
        type: 'llamacpp',
        status: 'healthy',
        status_label: 'Healthy',
        status_reason: expect.any(String),
        config: {
          name: 'llamacpp',
          type: 'llamacpp',
          base_url: expect.stringContaining('http://127.0.0.1:'),
          session_sticky_keys: false,
          resilience: {
            retry: {
              max_retries: 3,
              initial_backoff: '10ms',
              max_backoff: '30s',
              backoff_factor: 2,
              jitter_factor: 0.1,
            },
            circuit_breaker: { failure_threshold: 5, success_threshold: 2, timeout: '30s' },
          },
        },
        runtime: {
          name: 'llamacpp',
          type: 'llamacpp',
          registered: true,
          registry_initialized: true,
          discovered_model_count: expect.any(Number),
          using_cached_models: false,
          last_model_fetch_at: expect.any(String),
          last_model_fetch_success_at: expect.any(String),
          last_availability_check_at: expect.any(String),
          last_availability_ok_at: expect.any(String),
          inventory_stale: false,
          circuit_breaker: 'closed',
        },
      },
    ]);
  });

  it('returns the error of an unreachable provider, and no key', async () => {
    const unreachable = await other;
    await eventsUntil(unreachable, 'types=provider.became_unavailable', () => true);
    const text = await (await unreachable.fetch('/admin/providers/status')).text();
    expect(text).not.toContain('sk-hidden');
    const { summary, providers } = JSON.parse(text);
    expect(summary.overall_status).toBe('unhealthy');
    expect(providers[0]).toMatchObject({ name: 'vllm', status: 'unhealthy', last_error: expect.stringMatching(/./) });
    expect(providers[0].runtime.last_model_fetch_error).toBe(providers[0].last_error);
  });
});
