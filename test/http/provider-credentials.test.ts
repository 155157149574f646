/** Providers that administrators set up: what is stored and shown, and that the running gateway uses them at once. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import {
  dataOf,
  errorOf,
  eventsUntil,
  json,
  modelsListed,
  readUntil,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const SECRET = 'sk-the-very-secret-key-of-this-test';
const MASK = '********';
const ROUTE = '/admin/provider-credentials';
/** The providers of the tests run on this machine. */
const LOCAL = { ALLOW_PRIVATE_PROVIDERS: 'true' };

const upstreams: SimulatedProvider[] = [];
afterAll(() => Promise.all(upstreams.map((one) => one.close())));

/** A provider with these models that requires the secret as its key. */
async function upstream(
  models: string[],
  apiKey: string | null = SECRET,
): Promise<SimulatedProvider & { url: string }> {
  const provider = createSimulatedProvider({ models, ...(apiKey === null ? {} : { apiKey }) });
  upstreams.push(provider);
  return Object.assign(provider, { url: await provider.listen() });
}

type Fetching = Pick<TestGateway, 'fetch'>;

function put(gateway: Fetching, body: object, headers: Record<string, string> = {}): Promise<Response> {
  return gateway.fetch(ROUTE, { method: 'PUT', json: body, headers });
}

async function save(gateway: Fetching, body: object) {
  const answer = await put(gateway, body);
  expect({ status: answer.status, text: answer.status === 200 ? '' : await answer.text() }).toEqual({
    status: 200,
    text: '',
  });
  return json(answer);
}

function remove(gateway: Fetching, name: string, headers: Record<string, string> = {}): Promise<Response> {
  return gateway.fetch(`${ROUTE}/${name}`, { method: 'DELETE', headers });
}

async function rows(gateway: Fetching) {
  return json(await gateway.fetch(ROUTE));
}

async function row(gateway: Fetching, name: string) {
  return (await rows(gateway)).find((one: { name: string }) => one.name === name);
}

/** Requests one word from a model; the answer. */
function chat(gateway: Fetching, model: string, more: object = {}): Promise<Response> {
  return gateway.fetch('/v1/chat/completions', {
    json: { model, messages: user('Reply with exactly: here'), ...more },
  });
}

async function models(gateway: Fetching): Promise<string[]> {
  const { data } = await json(await gateway.fetch('/v1/models'));
  return data.map(({ id }: { id: string }) => id);
}

/** Resolves once a model of that name is listed. */
async function listed(gateway: Fetching, id: string): Promise<void> {
  const provider = id.split('/')[0];
  const wanted = id.slice(id.indexOf('/') + 1);
  await eventsUntil(gateway, 'types=provider.models_listed', ({ stream, data }) => {
    return stream === `provider-${provider}` && data.models.some((model: { id: string }) => model.id === wanted);
  });
}

function countOf(gateway: Fetching, name: string): Promise<number> {
  const stream = `stream=credential-${name}`;
  let count = 0;
  // The newest event is of another provider, written after all those that are counted.
  return save(gateway, { name: `after-${name}`, type: 'vllm', enabled: false, base_url: 'http://127.0.0.1:9/v1' })
    .then(() =>
      eventsUntil(gateway, 'types=provider_credential.', (event) => {
        if (event.stream === stream.slice('stream='.length)) count += 1;
        return event.stream === `credential-after-${name}`;
      }),
    )
    .then(() => remove(gateway, `after-${name}`))
    .then(() => count);
}

describe('a provider that is set up', () => {
  const gateway = withGateway({ env: LOCAL });

  it('answers at once, and is shown without its secret', async () => {
    const { url } = await upstream(['hot']);
    const saved = await save(gateway, { name: 'mine', type: 'openai', api_keys: [SECRET], base_url: url });
    expect(saved).toEqual({
      name: 'mine',
      type: 'openai',
      api_keys: [MASK],
      base_url: url,
      session_sticky_keys: false,
      enabled: true,
      managed: false,
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      updated_at: saved.created_at,
      revision: '0',
    });
    expect(await row(gateway, 'mine')).toEqual(saved);
    const answer = await chat(gateway, 'mine/hot');
    expect(answer.status).toBe(200);
    expect((await json(answer)).choices[0].message.content).toBe('here');
    await listed(gateway, 'mine/hot');
    expect(await models(gateway)).toContain('mine/hot');
    const passed = await gateway.fetch('/p/mine/v1/models');
    expect(passed.status).toBe(200);
    const metrics = await (await gateway.fetch('/metrics')).text();
    expect(metrics).toContain('gateway_circuit_breaker_state{provider="mine"} 0');
  });

  it('is listed after those of the configuration, by name', async () => {
    const all = await rows(gateway);
    expect(all.map(({ name }: { name: string }) => name)).toEqual(['llamacpp', 'mine']);
    expect(all[0]).toMatchObject({ name: 'llamacpp', type: 'llamacpp', managed: true, enabled: true });
    expect(all[0]).not.toHaveProperty('created_at');
  });

  it('keeps its secret when the mask is sent in its place', async () => {
    const before = await row(gateway, 'mine');
    const saved = await save(gateway, {
      name: 'mine',
      type: 'openai',
      api_keys: ['***'],
      base_url: before.base_url,
      models: ['hot', 'hotter'],
      models_mode: 'merge',
    });
    expect(saved).toMatchObject({ api_keys: [MASK], models: ['hot', 'hotter'], models_mode: 'merge' });
    expect(saved.created_at).toBe(before.created_at);
    expect(saved.updated_at > before.updated_at).toBe(true);
    expect((await chat(gateway, 'mine/hot')).status).toBe(200);
    expect(await models(gateway)).toContain('mine/hotter');
  });

  it('is called with a new key from the next request on', async () => {
    const { url } = await upstream(['rotated'], 'sk-second-key');
    const body = { name: 'rotated', type: 'openai', base_url: url };
    await save(gateway, { ...body, api_keys: ['sk-first-key'] });
    expect((await errorOf(await chat(gateway, 'rotated/rotated'), 502)).code).toBe('provider_credentials_refused');
    await save(gateway, { ...body, api_keys: ['sk-second-key'] });
    expect((await chat(gateway, 'rotated/rotated')).status).toBe(200);
    await remove(gateway, 'rotated');
  });

  it('is switched off and on, and keeps its settings', async () => {
    const before = await row(gateway, 'mine');
    const body = { name: 'mine', type: 'openai', api_keys: [MASK], base_url: before.base_url, enabled: false };
    expect(await save(gateway, body)).toMatchObject({ enabled: false });
    expect((await chat(gateway, 'mine/hot')).status).toBe(404);
    expect((await models(gateway)).filter((id) => id.startsWith('mine/'))).toEqual([]);
    expect(await save(gateway, { ...body, enabled: undefined })).toMatchObject({ enabled: false });
    expect(await save(gateway, { ...body, enabled: true })).toMatchObject({ enabled: true });
    expect((await chat(gateway, 'mine/hot')).status).toBe(200);
  });

  it('is recorded as one of the gateway’s providers, and so is its removal', async () => {
    const { url } = await upstream(['told'], null);
    await save(gateway, { name: 'told', type: 'vllm', base_url: url });
    await remove(gateway, 'told');
    const events = await eventsUntil(gateway, 'stream=provider-told', ({ type }) => type === 'provider.removed');
    const configured = { name: 'told', type: 'vllm', baseUrl: url, hasApiKey: false, configuredModels: [] };
    expect(events[0]).toMatchObject({ type: 'provider.configured', data: configured });
  });

  it('that is saved unchanged records no event', async () => {
    const { base_url } = await row(gateway, 'mine');
    const body = { name: 'mine', type: 'openai', base_url, enabled: true };
    const before = await countOf(gateway, 'mine');
    await save(gateway, { ...body, api_keys: [SECRET] });
    await save(gateway, { ...body, api_keys: [MASK] });
    expect(await countOf(gateway, 'mine')).toBe(before);
  });

  it('is not found after its removal, and can be set up again', async () => {
    const { base_url } = await row(gateway, 'mine');
    expect((await remove(gateway, 'mine')).status).toBe(204);
    expect(await row(gateway, 'mine')).toBeUndefined();
    expect((await chat(gateway, 'mine/hot')).status).toBe(404);
    expect((await gateway.fetch('/p/mine/v1/models')).status).toBe(400);
    await errorOf(await remove(gateway, 'mine'), 404);
    const masked = await errorOf(await put(gateway, { name: 'mine', type: 'openai', api_keys: [MASK], base_url }), 400);
    expect(masked.param).toBe('api_keys.0');
    await save(gateway, { name: 'mine', type: 'openai', api_keys: [SECRET], base_url });
    expect((await chat(gateway, 'mine/hot')).status).toBe(200);
  });

  it('lets a stream that has begun finish, whatever becomes of the provider meanwhile', async () => {
    const old = await upstream(['streamed'], null);
    const next = await upstream(['streamed'], null);
    await save(gateway, { name: 'moving', type: 'vllm', base_url: old.url });
    old.control.next({ holdAfterChunks: 2, text: 'one two three four five six' }, { path: '/v1/chat/completions' });
    const streaming = await chat(gateway, 'moving/streamed', { stream: true });
    expect(streaming.status).toBe(200);
    const reader = streaming.clone();
    await readUntil(reader, 'one');

    await save(gateway, { name: 'moving', type: 'vllm', base_url: next.url });
    next.control.next({ text: 'from elsewhere' }, { path: '/v1/chat/completions' });
    const other = await json(await chat(gateway, 'moving/streamed'));
    expect(other.choices[0].message.content).toBe('from elsewhere');
    expect((await remove(gateway, 'moving')).status).toBe(204);
    expect((await chat(gateway, 'moving/streamed')).status).toBe(404);

    old.control.release();
    const said = dataOf(await streaming.text()).map(({ choices }) => choices[0]?.delta?.content ?? '');
    expect(said.join('')).toBe('one two three four five six');
  });

  it('stays the provider for retries of a request that began with it', async () => {
    const old = await upstream(['tried'], null);
    await save(gateway, { name: 'tried', type: 'vllm', base_url: old.url });
    old.control.next({ status: 503, headerDelayMs: 50 }, { path: '/v1/chat/completions' });
    const providerRequest = old.nextRequest();
    const answer = chat(gateway, 'tried/tried');
    await providerRequest;
    await remove(gateway, 'tried');
    expect((await answer).status).toBe(200);
  });
});

describe('a request', () => {
  const gateway = withGateway({ env: LOCAL, register: (url) => ({ LLAMACPP_BASE_URL: url }) });
  const good = { name: 'good', type: 'openai', api_keys: [SECRET] };
  const put400 = async (body: object | string) => {
    const answer = await gateway.fetch(ROUTE, {
      method: 'PUT',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
    const error = await errorOf(answer, 400);
    expect(error.type).toBe('invalid_request_error');
    expect(error.message).not.toContain(SECRET);
    return error.param;
  };

  it.each([
    ['no name', { ...good, name: undefined }, 'name'],
    ['a slash in the name', { ...good, name: 'a/b' }, 'name'],
    ['two dots', { ...good, name: '..' }, 'name'],
    ['an empty name', { ...good, name: '' }, 'name'],
    ['a name that is too long', { ...good, name: 'x'.repeat(101) }, 'name'],
    ['a name with a control character', { ...good, name: 'a\nb' }, 'name'],
    ['a provider of the configuration', { ...good, name: 'llamacpp' }, 'name'],
    ['no type', { ...good, type: undefined }, 'type'],
    ['an unknown type', { ...good, type: 'toString' }, 'type'],
    ['no key', { ...good, api_keys: undefined }, 'api_keys'],
    ['an empty list of keys', { ...good, api_keys: [] }, 'api_keys'],
    ['a key that is not a string', { ...good, api_keys: [7] }, 'api_keys.0'],
    ['a key that cannot be in a header', { ...good, api_keys: ['a\nb'] }, 'api_keys.0'],
    ['a mask without a stored key', { ...good, api_keys: [MASK] }, 'api_keys.0'],
    ['no URL for a type that requires one', { name: 'x', type: 'llamacpp' }, 'base_url'],
    ['an invalid URL', { ...good, base_url: 'nowhere' }, 'base_url'],
    ['a URL of another scheme', { ...good, base_url: 'file:///etc/passwd' }, 'base_url'],
    ['a masked password without a stored one', { ...good, base_url: 'https://me:***@host/v1' }, 'base_url'],
    ['an invalid proxy URL', { ...good, proxy_url: 'proxy' }, 'proxy_url'],
    ['models that are not a list', { ...good, models: 'a' }, 'models'],
    ['an empty model', { ...good, models: [''] }, 'models.0'],
    ['an unknown mode', { ...good, models_mode: 'sometimes' }, 'models_mode'],
    ['a setting of another type', { ...good, site_url: 'https://a' }, 'site_url'],
    ['an invalid value of a setting', { ...good, type: 'anthropic', default_max_tokens: 'many' }, 'default_max_tokens'],
    ['sticky keys', { ...good, session_sticky_keys: true }, 'session_sticky_keys'],
    ['an unknown field', { ...good, backend: 'x' }, 'backend'],
    ['a field of the answer', { ...good, managed: false }, 'managed'],
    ['enabled that is not a boolean', { ...good, enabled: 'yes' }, 'enabled'],
    ['a list', [good], null],
  ])('%s is refused by name, and nothing is stored', async (_what, body, param) => {
    expect(await put400(body)).toBe(param);
    expect(await rows(gateway)).toHaveLength(1);
  });

  it('must be JSON', async () => {
    expect(await put400('{"name": ')).toBeNull();
    expect(await put400('')).toBeNull();
  });

  it('cannot remove a provider of the configuration', async () => {
    expect((await errorOf(await remove(gateway, 'llamacpp'), 400)).param).toBe('name');
  });

  it('cannot remove an unknown provider', async () => {
    await errorOf(await remove(gateway, 'nobody'), 404);
    await errorOf(await remove(gateway, encodeURIComponent('../x')), 404);
  });

  it('is applied only at the revision in If-Match', async () => {
    const first = await put(gateway, { ...good, enabled: false });
    expect(first.headers.get('etag')).toBe('"0"');
    const second = await put(gateway, { ...good, enabled: false, models: ['a'] }, { 'if-match': '"0"' });
    expect(second.headers.get('etag')).toBe('"1"');
    const late = await put(gateway, { ...good, enabled: false, models: ['b'] }, { 'if-match': '"0"' });
    expect((await errorOf(late, 409)).code).toBe('revision_mismatch');
    expect((await row(gateway, 'good')).models).toEqual(['a']);
    expect((await errorOf(await remove(gateway, 'good', { 'if-match': '"0"' }), 409)).code).toBe('revision_mismatch');
    expect((await remove(gateway, 'good', { 'if-match': '"1"' })).status).toBe(204);
  });

  it('is applied after a concurrent one, each with a revision', async () => {
    const body = { ...good, name: 'together', enabled: false };
    const answers = await Promise.all(['a', 'b', 'c', 'd'].map((model) => put(gateway, { ...body, models: [model] })));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const revisions = answers.map(({ headers }) => headers.get('etag')).sort();
    expect(revisions).toEqual(['"0"', '"1"', '"2"', '"3"']);
  });
});

describe('the types', () => {
  const gateway = withGateway({ env: LOCAL });

  it('list their settings', async () => {
    const types = await json(await gateway.fetch(`${ROUTE}/types`));
    const of = (name: string) => types.find(({ type }: { type: string }) => type === name);
    expect(types.map(({ type }: { type: string }) => type)).toEqual(
      expect.arrayContaining(['anthropic', 'azure', 'llamacpp', 'ollama', 'openai', 'openrouter']),
    );
    expect(of('openai')).toMatchObject({ default_base_url: 'https://api.openai.com/v1' });
    expect(of('openai').fields).toContainEqual({ name: 'api_keys', required: true, advanced: false });
    expect(of('llamacpp')).not.toHaveProperty('default_base_url');
    expect(of('llamacpp').fields).toContainEqual({ name: 'base_url', required: true, advanced: false });
    expect(of('llamacpp').fields).toContainEqual({ name: 'api_keys', required: false, advanced: false });
    expect(of('azure').fields).toContainEqual({ name: 'api_version', required: false, advanced: false });
    expect(of('openai').fields).toContainEqual({
      name: 'models_mode',
      required: false,
      advanced: true,
      options: ['fallback', 'allowlist', 'merge'],
    });
  });

  it('list no field that is not accepted', async () => {
    const types = await json(await gateway.fetch(`${ROUTE}/types`));
    for (const { type, fields } of types) {
      const sample: Record<string, unknown> = {
        api_keys: ['sk-1'],
        base_url: 'http://127.0.0.1:9/v1',
        models: ['m'],
        models_mode: 'merge',
        proxy_url: 'http://127.0.0.1:9',
        default_max_tokens: 4096,
      };
      const body = Object.fromEntries(fields.map(({ name }: { name: string }) => [name, sample[name] ?? 'text']));
      await save(gateway, { ...body, name: `of-${type}`, type, enabled: false });
    }
  });
});

/** Every byte that the gateway keeps, as text. */
function everythingIn(folder: string): string {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => join(folder, file))
    .filter((file) => statSync(file).isFile())
    .map((file) => readFileSync(file, 'latin1'))
    .join('\n');
}

describe('secrets', () => {
  const dataDirs: string[] = [];
  const open: TestGateway[] = [];
  afterEach(async () => {
    for (const gateway of open.splice(0)) await gateway.close();
  });
  afterAll(() => {
    for (const dataDir of dataDirs) rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  const newDataDir = () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-credentials-'));
    dataDirs.push(dataDir);
    return dataDir;
  };
  const start = async (options: TestGatewayOptions) => {
    const gateway = await startTestGateway({ ...options, env: { ...LOCAL, ...options.env } });
    open.push(gateway);
    return gateway;
  };
  const stop = async () => {
    for (const gateway of open.splice(0)) await gateway.close();
  };

  it('survive a restart, encrypted under a key that only its owner can read', async () => {
    const dataDir = newDataDir();
    const { url } = await upstream(['kept']);
    const first = await start({ dataDir });
    expect(readdirSync(dataDir)).not.toContain('credentials.key');
    const saved = await save(first, { name: 'kept', type: 'openai', api_keys: [SECRET], base_url: url });
    expect(statSync(join(dataDir, 'credentials.key')).mode & 0o777).toBe(0o600);
    await stop();
    const second = await start({ dataDir });
    expect(await row(second, 'kept')).toEqual(saved);
    expect((await chat(second, 'kept/kept')).status).toBe(200);
    expect(await models(second)).toContain('kept/kept');
  });

  it('are absent from files, events and answers', async () => {
    const dataDir = newDataDir();
    const { url } = await upstream(['quiet'], SECRET);
    const port = new URL(url).port;
    const gateway = await start({ dataDir });
    const base = `http://me:url-password@127.0.0.1:${port}/v1?token=query-secret`;
    const body = { name: 'quiet', type: 'openai', api_keys: [SECRET], base_url: base };
    const answers: string[] = [];
    answers.push(
      JSON.stringify(await save(gateway, { ...body, proxy_url: 'http://proxy:proxy-password@127.0.0.1:9' })),
    );
    answers.push(JSON.stringify(await save(gateway, body)));
    answers.push(await (await chat(gateway, 'quiet/quiet')).text());
    answers.push(await (await gateway.fetch(ROUTE)).text());
    answers.push(await (await gateway.fetch('/admin/providers/status')).text());
    answers.push(await (await put(gateway, { ...body, api_keys: [SECRET, 7] })).text());
    const events = await eventsUntil(
      gateway,
      'types=provider.,provider_credential.,request.,attempt.',
      ({ stream, type }) => {
        return stream === 'provider-quiet' && type === 'provider.models_listed';
      },
    );
    answers.push(JSON.stringify(events));
    const history = await (await gateway.fetch('/admin/history?subject=credential:quiet')).text();
    expect(history).toContain('provider_credential.saved');
    expect(history).not.toMatch(/v1\.[0-9a-f]{8}\./);
    answers.push(history);
    await stop();
    const all = `${answers.join('\n')}\n${everythingIn(dataDir)}`;
    expect(all).toContain('credential-quiet');
    expect(all).toContain(`http://me:${MASK}@127.0.0.1:${port}/v1?token=${MASK}`);
    for (const secret of [SECRET, 'url-password', 'query-secret', 'proxy-password']) expect(all).not.toContain(secret);
    expect(all).not.toContain(Buffer.from(SECRET).toString('base64'));
  });

  it('that cannot be decrypted disable their provider, and nothing else', async () => {
    const dataDir = newDataDir();
    const { url } = await upstream(['lost']);
    const key = 'one key of at least thirty-two characters';
    const first = await start({ dataDir, env: { CREDENTIALS_KEY: key } });
    await save(first, { name: 'lost', type: 'openai', api_keys: [SECRET], base_url: url });
    expect(readdirSync(dataDir)).not.toContain('credentials.key');
    await stop();

    const second = await start({ dataDir, env: { CREDENTIALS_KEY: key.replace('one', 'two') } });
    await modelsListed(second);
    expect((await chat(second, 'llamacpp/simulated-small')).status).toBe(200);
    expect((await chat(second, 'lost/lost')).status).toBe(404);
    expect(await row(second, 'lost')).toMatchObject({
      enabled: true,
      problem: expect.stringContaining('sealed with the key'),
    });
    const { providers } = await json(await second.fetch('/admin/providers/status'));
    expect(providers).toContainEqual(
      expect.objectContaining({
        name: 'lost',
        status: 'unhealthy',
        last_error: expect.stringContaining('sealed with the key'),
      }),
    );
    const masked = await put(second, { name: 'lost', type: 'openai', api_keys: [MASK], base_url: url });
    expect((await errorOf(masked, 400)).message).toContain('send the secret again');
    expect(await save(second, { name: 'lost', type: 'openai', api_keys: [SECRET], base_url: url })).not.toHaveProperty(
      'problem',
    );
    expect((await chat(second, 'lost/lost')).status).toBe(200);
  });

  it('are not stored when their key cannot be read', async () => {
    const gateway = await start({ env: { CREDENTIALS_KEY_FILE: '/nowhere/key' } });
    const answer = await put(gateway, { name: 'mine', type: 'openai', api_keys: [SECRET] });
    const error = await errorOf(answer, 503);
    expect(error).toMatchObject({ code: 'feature_unavailable', message: expect.stringContaining('/nowhere/key') });
    expect(error.message).not.toContain(SECRET);
  });

  it('stay under a name that the configuration takes, and are used again when it releases the name', async () => {
    const dataDir = newDataDir();
    const { url } = await upstream(['shadowed']);
    await save(await start({ dataDir }), { name: 'vllm', type: 'openai', api_keys: [SECRET], base_url: url });
    await stop();
    const shadowed = await start({ dataDir, env: { VLLM_BASE_URL: (await upstream(['declared'], null)).url } });
    expect(await row(shadowed, 'vllm')).toMatchObject({ type: 'vllm', managed: true });
    expect((await chat(shadowed, 'vllm/declared')).status).toBe(200);
    expect((await errorOf(await remove(shadowed, 'vllm'), 400)).param).toBe('name');
    await stop();
    const again = await start({ dataDir });
    expect(await row(again, 'vllm')).toMatchObject({ type: 'openai', managed: false });
    expect((await chat(again, 'vllm/shadowed')).status).toBe(200);
  });
});

describe('the demonstration', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ simulated: false, env: LOCAL });
  });
  afterAll(() => gateway.close());
  const isThere = async () => (await chat(gateway, 'demo/simulated-small')).status === 200;

  it('exists only while there is no other provider', async () => {
    expect(gateway.gateway.demo).toBe(true);
    expect(await isThere()).toBe(true);
    expect(await rows(gateway)).toEqual([]);
    const { url } = await upstream(['real'], null);
    await save(gateway, { name: 'real', type: 'vllm', base_url: url });
    expect(await isThere()).toBe(false);
    expect((await chat(gateway, 'real')).status).toBe(200);
    await save(gateway, { name: 'real', type: 'vllm', base_url: url, enabled: false });
    expect(await isThere()).toBe(false);
    await remove(gateway, 'real');
    expect(await isThere()).toBe(true);
  });
});
