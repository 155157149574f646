/** A model that a caller may not use is refused on every route, and listed on none. */
import { beforeAll, describe, expect, it } from 'vitest';
import { withBothKinds } from '../support/both-kinds.ts';
import { type ManagedKey, newKey, put, setPolicy } from '../support/managed-keys.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, user } from '../support/with-gateway.ts';

const kinds = withBothKinds();
const { gateway } = kinds;
const allowed = 'llamacpp/simulated-small';
const denied = 'openai/simulated-small';
const input = 'hi';

/** By its own list, by the list of its path, and by both. */
const restricted: { name: string; key: ManagedKey }[] = [];
/** Seen by the keys, created before anything was restricted. */
const filesBefore: string[] = [];

function form(provider: string, models: readonly string[] = ['simulated-small']) {
  const line = (model: string) =>
    JSON.stringify({ url: '/v1/chat/completions', body: { model, messages: user('hi') } });
  const fields = new FormData();
  fields.append('purpose', 'batch');
  fields.append('provider', provider);
  fields.append('file', new Blob([models.map(line).join('\n')]), 'in.jsonl');
  return { method: 'POST', body: fields };
}

beforeAll(async () => {
  const unbound = await newKey(gateway);
  filesBefore.push((await json(await unbound.fetch('/v1/files', form('openai')))).id);
  for (const path of ['/few', '/few/below/here', '/some']) {
    const answer = await gateway.fetch('/v1/files', { ...form('openai'), headers: { 'x-gateway-user-path': path } });
    filesBefore.push((await json(answer)).id);
  }
  await setPolicy(gateway, '/few', [allowed, 'llamacpp/simulated-embed']);
  await setPolicy(gateway, '/some', ['llamacpp/']);
  const own = [allowed, 'llamacpp/simulated-embed'];
  await gateway.fetch(`/admin/auth-keys/${unbound.id}/allowed-models`, put({ allowed_models: own }));
  restricted.push({ name: 'its own list', key: unbound });
  restricted.push({ name: 'the list of its path', key: await newKey(gateway, { user_path: '/few' }) });
  restricted.push({ name: 'the list above its path', key: await newKey(gateway, { user_path: '/few/below/here' }) });
  const both = { user_path: '/some', allowed_models: ['simulated-small', 'simulated-embed'] };
  restricted.push({ name: 'two lists together', key: await newKey(gateway, both) });
});

const roads: [string, (model: string) => object][] = [
  ['/v1/chat/completions', (model) => ({ model, messages: user('hi') })],
  ['/v1/chat/completions', (model) => ({ model, messages: user('hi'), stream: true })],
  ['/v1/responses', (model) => ({ model, input })],
  ['/v1/responses', (model) => ({ model, input, background: true })],
  ['/v1/messages', (model) => ({ model, messages: user('hi'), max_tokens: 5 })],
  ['/v1/messages/count_tokens', (model) => ({ model, messages: user('hi') })],
  ['/v1/embeddings', (model) => ({ model, input })],
  ['/v1/completions', (model) => ({ model, prompt: 'hi' })],
  ['/v1/images/generations', (model) => ({ model, prompt: 'hi' })],
  ['/v1/audio/speech', (model) => ({ model, input, voice: 'alloy' })],
  ['/v1/responses/input_tokens', (model) => ({ model, input })],
];

describe.each([0, 1, 2, 3])('a key that is restricted (%i)', (place) => {
  const key = () => restricted[place]?.key ?? expect.fail('there is no such key');

  it.each(roads)('is refused at %s', async (path, body) => {
    const requestCount = kinds.nativeProvider.requests.length;
    for (const model of [denied, 'openai/simulated-large', 'llamacpp/simulated-large']) {
      const answer = await key().fetch(path, { json: body(model) });
      if (path.startsWith('/v1/messages')) {
        expect(answer.status).toBe(400);
        expect(await json(answer)).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } });
      } else {
        expect(await errorOf(answer, 400)).toMatchObject({
          code: 'model_access_denied',
          type: 'invalid_request_error',
          param: 'model',
        });
      }
    }
    expect(kinds.nativeProvider.requests.slice(requestCount).filter(({ method }) => method === 'POST')).toEqual([]);
  });

  it('is refused for a bare name, and for a hint, that mean the same model', async () => {
    const hinted = { model: 'simulated-small', provider: 'openai', messages: user('hi') };
    expect((await errorOf(await key().fetch('/v1/chat/completions', { json: hinted }), 400)).code).toBe(
      'model_access_denied',
    );
    const bare = { model: 'simulated-large', messages: user('hi') };
    expect((await errorOf(await key().fetch('/v1/chat/completions', { json: bare }), 400)).code).toBe(
      'model_access_denied',
    );
  });

  it('receives x-should-retry: false, and the refusal is recorded', async () => {
    const answer = await key().fetch('/v1/chat/completions', { json: { model: denied, messages: user('hi') } });
    expect(answer.headers.get('x-should-retry')).toBe('false');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type)).toEqual(['request.received', 'request.refused']);
    expect(events.at(-1)?.data).toMatchObject({ code: 'model_access_denied' });
  });

  it('uses its allowed models', async () => {
    for (const [path, body] of roads.slice(0, 6)) {
      expect((await key().fetch(path, { json: body(allowed) })).status).toBe(200);
    }
    const embedded = await key().fetch('/v1/embeddings', { json: { model: 'llamacpp/simulated-embed', input } });
    expect(embedded.status).toBe(200);
  });

  it('sees nothing else in the list of models, in either format', async () => {
    const { data } = await json(await key().fetch('/v1/models'));
    const seen = [allowed, 'llamacpp/simulated-embed'];
    expect(data.map(({ id }: { id: string }) => id)).toEqual(seen);
    const anthropic = { headers: { 'anthropic-version': '2023-06-01' } };
    const page = await json(await key().fetch('/v1/models', anthropic));
    expect(page.data.map(({ id }: { id: string }) => id)).toEqual(seen);
    expect((await key().fetch(`/v1/models/${allowed}`)).status).toBe(200);
    for (const model of [denied, 'llamacpp/simulated-large', 'openai/simulated-embed']) {
      expect(await errorOf(await key().fetch(`/v1/models/${model}`), 404)).toMatchObject({ code: 'model_not_found' });
      expect((await key().fetch(`/v1/models/${model}`, anthropic)).status).toBe(404);
    }
    expect((await gateway.fetch(`/v1/models/${denied}`)).status).toBe(200);
  });

  it("is refused at the provider's own API, where any model may be named", async () => {
    for (const [method, path] of [
      ['GET', '/p/openai/v1/models'],
      ['POST', '/p/openai/v1/chat/completions'],
      ['GET', '/p/llamacpp/health'],
    ] as const) {
      expect(await errorOf(await key().fetch(path, { method }), 400)).toMatchObject({
        code: 'model_access_denied',
        param: 'provider',
      });
    }
  });

  it('cannot create files or batches at a provider that it may not use', async () => {
    expect((await errorOf(await key().fetch('/v1/files', form('openai')), 400)).code).toBe('model_access_denied');
    expect((await errorOf(await key().fetch('/v1/files?provider=openai'), 400)).code).toBe('model_access_denied');
    // A key with a path gets 404 for a file that is not on record here.
    expect([400, 404]).toContain((await key().fetch('/v1/files/f-1?provider=openai')).status);
    // With a file that the key may see, at a provider that it may not use.
    const id = filesBefore[place];
    expect((await key().fetch(`/v1/files/${id}`)).status).toBe(400);
    const batch = { input_file_id: id, endpoint: '/v1/chat/completions', model: denied };
    expect((await errorOf(await key().fetch('/v1/batches', { json: batch }), 400)).code).toBe('model_access_denied');
  });
});

describe('a batch with models in its file', () => {
  const uploadedBy = async (key: ManagedKey, ...models: string[]): Promise<string> =>
    (await json(await key.fetch('/v1/files', form('openai', models)))).id;
  const batchesMade = () => kinds.nativeProvider.requests.filter(({ path }) => path === '/v1/batches').length;

  it('is allowed only when the caller may use each of them', async () => {
    const requestBody = { endpoint: '/v1/chat/completions', completion_window: '24h' };
    const some = await newKey(gateway, { allowed_models: ['openai/simulated-small'] });
    const input_file_id = await uploadedBy(some, 'simulated-small', 'simulated-large');
    const made = batchesMade();
    for (const hint of [{}, { provider: 'openai' }, { model: 'openai/simulated-small' }]) {
      const refused = await some.fetch('/v1/batches', { json: { ...requestBody, ...hint, input_file_id } });
      expect(await errorOf(refused, 400)).toMatchObject({ code: 'model_access_denied', param: 'model' });
    }
    expect(batchesMade()).toBe(made);
    const allowedOnly = { ...requestBody, input_file_id: await uploadedBy(some, 'simulated-small') };
    expect((await some.fetch('/v1/batches', { json: allowedOnly })).status).toBe(200);
    const whole = await newKey(gateway, { allowed_models: ['openai/'] });
    const own = { ...requestBody, input_file_id: await uploadedBy(whole, 'simulated-small', 'simulated-large') };
    expect((await whole.fetch('/v1/batches', { json: own })).status).toBe(200);
  });
});

describe('a body that names two models', () => {
  const send = async (path: string, body: string): Promise<Response> => {
    const key = await newKey(gateway, { allowed_models: [allowed, 'llamacpp/simulated-embed'] });
    return key.fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  };
  const messages = JSON.stringify(user('hi'));

  it.each([
    ['twice', `{"model":"simulated-large","model":"simulated-small","messages":${messages}}`],
    ['once in escapes', `{"mod\\u0065l":"simulated-large","model":"simulated-small","messages":${messages}}`],
    ['once more in escapes', `{"model":"simulated-large","\\u006dodel":"simulated-small","messages":${messages}}`],
    ['in another case', `{"model":"simulated-small","Model":"simulated-large","messages":${messages}}`],
  ])('%s, is refused', async (_how, body) => {
    expect(await errorOf(await send('/v1/chat/completions', body), 400)).toMatchObject({ code: 'repeated_member' });
  });

  it('is refused at other endpoints too', async () => {
    const body = '{"model":"simulated-large","model":"simulated-embed","input":"hi"}';
    expect(await errorOf(await send('/v1/embeddings', body), 400)).toMatchObject({ code: 'repeated_member' });
  });

  it('is not refused for a word in its text', async () => {
    const said = `{ "model" :"simulated-small", "messages":${JSON.stringify(user('the word "model" is said'))}}`;
    const answer = await send('/v1/chat/completions', said);
    expect(answer.status, await answer.text()).toBe(200);
    expect(String(gateway.lastProviderRequest().body)).toBe(said);
  });
});

describe('passthrough to a provider', () => {
  it('is allowed where every list includes the provider', async () => {
    const key = await newKey(gateway, { user_path: '/some', allowed_models: ['llamacpp/*'] });
    expect((await key.fetch('/p/llamacpp/health')).status).toBe(200);
    expect((await errorOf(await key.fetch('/p/openai/v1/models'), 400)).code).toBe('model_access_denied');
  });
});

describe('the master key', () => {
  const body = (model: string) => ({ json: { model, messages: user('hi') } });
  const at = (path: string) => ({ headers: { 'x-gateway-user-path': path } });

  it('may use everything', async () => {
    expect((await gateway.fetch('/v1/chat/completions', body(denied))).status).toBe(200);
  });

  it('is bound by the policies of the path in the header', async () => {
    for (const path of ['/few', '/few/below']) {
      const refused = await gateway.fetch('/v1/chat/completions', { ...body(denied), ...at(path) });
      expect(await errorOf(refused, 400)).toMatchObject({ code: 'model_access_denied' });
      expect((await gateway.fetch('/v1/chat/completions', { ...body(allowed), ...at(path) })).status).toBe(200);
    }
    expect((await gateway.fetch('/v1/chat/completions', { ...body(denied), ...at('/fewer') })).status).toBe(200);
    const { data } = await json(await gateway.fetch('/v1/models', at('/few')));
    expect(data.map(({ id }: { id: string }) => id)).toEqual([allowed, 'llamacpp/simulated-embed']);
  });
});

describe('a policy', () => {
  it('applies from the next request on, and is gone with the next after its removal', async () => {
    const key = await newKey(gateway, { user_path: '/quick/one' });
    const ask = async () =>
      (await key.fetch('/v1/chat/completions', { json: { model: denied, messages: user('hi') } })).status;
    expect(await ask()).toBe(200);
    for (let round = 0; round < 5; round++) {
      await setPolicy(gateway, '/quick', ['llamacpp/']);
      expect(await ask()).toBe(400);
      expect((await gateway.fetch('/admin/users?user_path=/quick', { method: 'DELETE' })).status).toBe(200);
      expect(await ask()).toBe(200);
    }
  });
});
