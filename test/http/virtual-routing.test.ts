/** Where a virtual model sends a request: on every endpoint, by every strategy, and for which callers. */
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { saved, withProviders } from '../support/several-providers.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, modelsListed, user } from '../support/with-gateway.ts';

const { gateway, provider, requestsTo, counted } = withProviders({
  a: { models: ['small', 'shared'] },
  b: { models: ['large', 'shared'] },
  c: { models: ['huge'] },
});

const chat = (model: string, more: object = {}) => ({ model, messages: user('Hello.'), ...more });
const ask = async (model: string, more: object = {}, headers: Record<string, string> = {}) => {
  const answer = await gateway.post('/v1/chat/completions', chat(model, more), { headers });
  await answer.clone().text();
  return answer;
};
/** The model name in the latest request to `b`. */
const requestedModelIn = () => JSON.parse(requestsTo('b').at(-1)?.body ?? '{}').model;
const remove = (source: string) => gateway.fetch('/admin/virtual-models', { method: 'DELETE', json: { source } });

/** How many of so many requests each provider received. */
async function shares(times: number, model: string, headers: Record<string, string> = {}) {
  counted();
  for (let turn = 0; turn < times; turn++) expect((await ask(model, {}, headers)).status).toBe(200);
  return counted();
}

const three = [
  { provider: 'llamacpp-a', model: 'small' },
  { provider: 'llamacpp-b', model: 'large' },
  { provider: 'llamacpp-c', model: 'huge' },
];

describe('an alias', () => {
  beforeAll(async () => {
    await saved(gateway, { source: 'fast', targets: [{ provider: 'llamacpp-b', model: 'large' }] });
    await saved(gateway, { source: 'team/best', target_model: 'fast' });
  });

  test('resolves to the model of a provider, and the resolution is recorded', async () => {
    const answer = await ask('team/best');
    expect(answer.status).toBe(200);
    expect(requestedModelIn()).toBe('large');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'model.resolved')?.data).toEqual({
      requested: 'team/best',
      provider: 'llamacpp-b',
      providerType: 'llamacpp',
      model: 'large',
      through: ['team/best', 'fast'],
    });
  });

  test.each<[string, object]>([
    ['/v1/chat/completions', chat('fast')],
    ['/v1/chat/completions', chat('fast', { stream: true })],
    ['/v1/responses', { model: 'fast', input: 'Hello.' }],
    ['/v1/responses', { model: 'fast', input: 'Hello.', stream: true }],
    ['/v1/messages', { ...chat('fast'), max_tokens: 20 }],
    ['/v1/messages/count_tokens', chat('fast')],
    ['/v1/embeddings', { model: 'fast', input: 'Hello.' }],
    ['/v1/completions', { model: 'fast', prompt: 'Hello' }],
  ])('works for %s', async (path, body) => {
    const before = requestsTo('b').length;
    const answer = await gateway.post(path, body);
    expect({ status: answer.status, text: await answer.text() }).toMatchObject({ status: 200 });
    if (path.endsWith('count_tokens')) return;
    expect(requestsTo('b')).toHaveLength(before + 1);
    expect(requestedModelIn()).toBe('large');
  });

  test('works for forms too', async () => {
    const form = new FormData();
    form.set('model', 'fast');
    form.set('file', new Blob(['not really sound']), 'a.wav');
    const answer = await gateway.fetch('/v1/audio/transcriptions', { method: 'POST', body: form });
    // The provider has no such endpoint; it is enough that the request went there.
    expect((await errorOf(answer, 501)).message).toContain('not supported by this provider');
  });

  test('is listed like any other model, in both formats', async () => {
    const { data } = await json(await gateway.fetch('/v1/models'));
    const listed = data.find(({ id }: { id: string }) => id === 'fast');
    expect(listed).toMatchObject({ id: 'fast', object: 'model', owned_by: 'gateway', created: expect.any(Number) });
    expect(data.map(({ id }: { id: string }) => id)).toEqual(expect.arrayContaining(['team/best', 'llamacpp-a/small']));
    expect(await json(await gateway.fetch('/v1/models/team/best'))).toMatchObject({ id: 'team/best' });
    const anthropic = await gateway.fetch('/v1/models/fast', { headers: { 'anthropic-version': '2023-06-01' } });
    expect(await json(anthropic)).toMatchObject({ type: 'model', id: 'fast' });
  });

  test('may have the name of a model, and replaces it', async () => {
    await saved(gateway, { source: 'small', target_model: 'large' });
    await saved(gateway, { source: 'llamacpp-a/shared', target_model: 'llamacpp-b/shared' });
    counted();
    await ask('small');
    await ask('llamacpp-a/shared');
    expect(counted()).toEqual({ a: 0, b: 2, c: 0 });
    // A selector with a provider means the model of that provider.
    await ask('llamacpp-a/small');
    await ask('small', { provider: 'llamacpp-a' });
    expect(counted()).toEqual({ a: 2, b: 0, c: 0 });
    const { data } = await json(await gateway.fetch('/v1/models'));
    const ids: string[] = data.map(({ id }: { id: string }) => id);
    expect(ids.filter((id) => id === 'llamacpp-a/shared')).toHaveLength(1);
    await remove('small');
    await remove('llamacpp-a/shared');
    await ask('small');
    expect(counted()).toEqual({ a: 1, b: 0, c: 0 });
  });

  test('with its own name as target leads to the model of that name', async () => {
    await saved(gateway, { source: 'large', targets: [{ model: 'large' }, { provider: 'llamacpp-c', model: 'huge' }] });
    expect(await shares(4, 'large')).toEqual({ a: 0, b: 2, c: 2 });
    await remove('large');
  });

  test('that is switched off is not found', async () => {
    await saved(gateway, { source: 'off', target_model: 'large', enabled: false });
    expect(await errorOf(await ask('off'), 404)).toMatchObject({ code: 'model_not_found' });
    expect((await gateway.fetch('/v1/models/off')).status).toBe(404);
  });

  test('without a usable target is a 404 like an unknown model', async () => {
    await saved(gateway, { source: 'hollow', target_model: 'nothing' });
    expect(await errorOf(await ask('hollow'), 404)).toMatchObject({ code: 'model_not_found', param: 'model' });
  });
});

describe('the list of models', () => {
  test('may show virtual models alone; the others can still be used', async () => {
    const other = await startTestGateway({
      env: {
        KEEP_ONLY_ALIASES_AT_MODELS_ENDPOINT: 'true',
        VIRTUAL_MODELS: '[{"source":"alias","target_model":"simulated-small"}]',
      },
    });
    try {
      await modelsListed(other);
      const { data } = await json(await other.fetch('/v1/models'));
      expect(data.map(({ id }: { id: string }) => id)).toEqual(['alias']);
      expect((await other.fetch('/v1/models/llamacpp/simulated-small')).status).toBe(200);
      const answer = await other.fetch('/v1/chat/completions', { json: chat('llamacpp/simulated-small') });
      expect(answer.status).toBe(200);
      await answer.text();
    } finally {
      await other.close();
    }
  });
});

describe('several targets', () => {
  afterEach(async () => {
    await remove('several');
  });

  test('are chosen in proportion to their weights', async () => {
    const targets = [{ ...three[0], weight: 3 }, three[1]];
    await saved(gateway, { source: 'several', targets });
    expect(await shares(8, 'several')).toEqual({ a: 6, b: 2, c: 0 });
  });

  test('are tried in their order with the failover strategy', async () => {
    await saved(gateway, { source: 'several', targets: three, strategy: 'failover' });
    expect(await shares(5, 'several')).toEqual({ a: 5, b: 0, c: 0 });
  });

  test('are chosen by price with the cost strategy', async () => {
    await saved(gateway, { source: 'several', targets: three, strategy: 'cost' });
    const price = (selector: string, perMtok: number) =>
      gateway.fetch('/admin/model-pricing-overrides', {
        method: 'PUT',
        json: { selector, pricing: { input_per_mtok: perMtok, output_per_mtok: perMtok } },
      });
    expect((await price('llamacpp-a/small', 3)).status).toBe(200);
    await price('llamacpp-c/huge', 1);
    expect(await shares(3, 'several')).toEqual({ a: 0, b: 0, c: 3 });
    await price('llamacpp-b/large', 0.5);
    expect(await shares(3, 'several')).toEqual({ a: 0, b: 3, c: 0 });
  });

  test('are chosen by speed with the adaptive strategy', async () => {
    await saved(gateway, { source: 'several', targets: three.slice(0, 2), strategy: 'adaptive' });
    provider.a.control.always({ headerDelayMs: 400 });
    // It receives requests until it was measured to be slow, and later probes to see whether it still is.
    const { a, b } = await shares(20, 'several');
    expect(a + b).toBe(20);
    expect(b).toBeGreaterThan(11);
  });

  test('stay the same for a session', async () => {
    await saved(gateway, { source: 'several', targets: three });
    const homes = new Set<string>();
    for (let session = 0; session < 12; session++) {
      const counts = await shares(3, 'several', { 'x-session-id': `session ${session}` });
      expect(Object.values(counts).sort()).toEqual([0, 0, 3]);
      homes.add(Object.entries(counts).find(([, count]) => count === 3)?.[0] ?? '');
    }
    expect(homes.size).toBeGreaterThan(1);
    await saved(gateway, { source: 'several', targets: three, session_affinity: false });
    expect(await shares(6, 'several', { 'x-session-id': 'session 1' })).toEqual({ a: 2, b: 2, c: 2 });
  });

  test('are skipped when they have reached their rate limit', async () => {
    await saved(gateway, { source: 'several', targets: three.slice(0, 2), strategy: 'failover' });
    const limit = await gateway.fetch('/admin/rate-limits', {
      method: 'PUT',
      json: { scope: 'provider', subject: 'llamacpp-a', limit_key: { period: 'minute' }, max_requests: 2 },
    });
    expect({ status: limit.status, text: limit.ok ? '' : await limit.text() }).toEqual({ status: 200, text: '' });
    expect(await shares(5, 'several')).toEqual({ a: 2, b: 3, c: 0 });
    await gateway.fetch('/admin/rate-limits', {
      method: 'DELETE',
      json: { scope: 'provider', subject: 'llamacpp-a', limit_key: { period: 'minute' } },
    });
  });

  test('take turns through nested virtual models', async () => {
    await saved(gateway, { source: 'inner', targets: three.slice(0, 2) });
    await saved(gateway, { source: 'several', targets: [{ model: 'inner' }, three[2]] });
    expect(await shares(8, 'several')).toEqual({ a: 2, b: 2, c: 4 });
    await remove('several');
    await remove('inner');
  });
});

describe('access to models', () => {
  const as = (path: string) => ({ 'x-gateway-user-path': path });

  test('a virtual model may be limited to some user paths', async () => {
    await saved(gateway, { source: 'ours', target_model: 'large', user_paths: ['/team'] });
    expect((await ask('ours', {}, as('/team/alpha'))).status).toBe(200);
    for (const headers of [as('/teams'), {}]) {
      expect(await errorOf(await ask('ours', {}, headers), 400)).toMatchObject({ code: 'model_access_denied' });
      expect((await gateway.fetch('/v1/models/ours', { headers })).status).toBe(404);
    }
    expect((await gateway.fetch('/v1/models/ours', { headers: as('/team') })).status).toBe(200);
    await remove('ours');
  });

  test('targets that the caller may not use are left out, and none left is a refusal', async () => {
    await saved(gateway, { source: 'mixed', targets: three.slice(0, 2) });
    await saved(gateway, { source: 'llamacpp-a/', user_paths: ['/team'] });
    expect(await shares(4, 'mixed', as('/other'))).toEqual({ a: 0, b: 4, c: 0 });
    expect(await shares(4, 'mixed', as('/team/x'))).toEqual({ a: 2, b: 2, c: 0 });
    await saved(gateway, { source: 'llamacpp-b/large', enabled: false });
    expect(await errorOf(await ask('mixed', {}, as('/other')), 400)).toMatchObject({
      code: 'model_access_denied',
      param: 'model',
    });
    expect((await gateway.fetch('/v1/models/mixed', { headers: as('/other') })).status).toBe(404);
    for (const source of ['mixed', 'llamacpp-a/', 'llamacpp-b/large']) await remove(source);
  });

  test('a policy applies to models that are requested by their own names', async () => {
    await saved(gateway, { source: 'huge', enabled: false });
    expect(await errorOf(await ask('llamacpp-c/huge'), 400)).toMatchObject({ code: 'model_access_denied' });
    const { data } = await json(await gateway.fetch('/v1/models'));
    expect(data.map(({ id }: { id: string }) => id)).not.toContain('llamacpp-c/huge');
    await remove('huge');
    expect((await ask('llamacpp-c/huge')).status).toBe(200);
  });

  test('a policy for all models also applies to callers without a path', async () => {
    await saved(gateway, { source: '/', user_paths: ['/team'] });
    expect(await errorOf(await ask('large'), 400)).toMatchObject({ code: 'model_access_denied' });
    expect((await ask('large', {}, as('/team'))).status).toBe(200);
    await saved(gateway, { source: '/', user_paths: ['/'] });
    expect((await ask('large')).status).toBe(200);
    await remove('/');
  });

  test("a key's own list applies to the models behind the virtual model", async () => {
    await saved(gateway, { source: 'mixed', targets: three.slice(0, 2) });
    const { value } = await json(
      await gateway.fetch('/admin/auth-keys', { json: { name: 'only b', allowed_models: ['llamacpp-b/'] } }),
    );
    expect(await shares(3, 'mixed', { authorization: `Bearer ${value}` })).toEqual({ a: 0, b: 3, c: 0 });
    await remove('mixed');
  });

  test('no model may be used where that is the default, except what a policy allows', async () => {
    const other = await startTestGateway({
      env: {
        MODELS_ENABLED_BY_DEFAULT: 'false',
        VIRTUAL_MODELS: '[{"source":"llamacpp/simulated-small"},{"source":"alias","target_model":"simulated-small"}]',
      },
    });
    try {
      await modelsListed(other);
      const status = async (model: string) => {
        const answer = await other.fetch('/v1/chat/completions', { json: chat(model) });
        await answer.text();
        return answer.status;
      };
      expect(await status('llamacpp/simulated-small')).toBe(200);
      expect(await status('alias')).toBe(200);
      expect(await status('llamacpp/simulated-large')).toBe(400);
      const { data } = await json(await other.fetch('/v1/models'));
      expect(data.map(({ id }: { id: string }) => id)).toEqual(['alias', 'llamacpp/simulated-small']);
    } finally {
      await other.close();
    }
  });
});
