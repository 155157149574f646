import { afterEach, describe, expect, test } from 'vitest';
import { createProvider } from '../../src/providers/create-provider.ts';
import {
  type Provider,
  type ProviderCall,
  type ProviderConfig,
  RESPONSES_PROBE_MS,
} from '../../src/providers/provider.ts';
import { UpstreamError } from '../../src/providers/upstream-error.ts';
import { configured } from './configured.ts';
import { type Answer, deadOrigin, json, startUpstream, type Upstream } from './upstream.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

async function upstream(answer: Answer = (_request, response) => json(response, 200, { ok: true })): Promise<Upstream> {
  const started = await startUpstream(answer);
  closing.push(() => started.close());
  return started;
}

function provider(type: string, baseUrl: string, more: Partial<ProviderConfig> = {}): Provider {
  const created = createProvider(configured(type, baseUrl, more));
  closing.push(() => created.close());
  return created;
}

const signal = new AbortController().signal;
const call = (more: Partial<ProviderCall> = {}): ProviderCall => ({
  dialect: 'chat',
  body: Buffer.from('{"model":"m"}'),
  stream: false,
  requestId: 'r1',
  signal,
  ...more,
});

async function sent(from: Provider, more: Partial<ProviderCall> = {}): Promise<void> {
  await (await from.send(call(more))).body.bytes(1000);
}

async function forwarded(from: Provider, path: string, headers: Record<string, string> = {}): Promise<void> {
  const reply = await from.forward({ method: 'POST', path, headers, body: Buffer.from('{}'), requestId: 'r1', signal });
  await reply.body.bytes(10_000);
}

const lists = (body: unknown, status = 200): Answer => {
  return (_request, response) => json(response, status, body);
};

describe('a call', () => {
  test.each([
    ['chat', '/v1/chat/completions'],
    ['responses', '/v1/responses'],
    ['embeddings', '/v1/embeddings'],
  ] as const)('for %s goes to %s with the body as it is', async (dialect, path) => {
    const { origin, requests: postBody } = await upstream();
    await sent(provider('openai', `${origin}/v1`, { apiKeys: ['key-1'] }), { dialect });
    expect(postBody[0]).toMatchObject({
      method: 'POST',
      path,
      body: '{"model":"m"}',
      headers: {
        authorization: 'Bearer key-1',
        'content-type': 'application/json',
        accept: 'application/json',
        'accept-encoding': 'identity',
        'x-request-id': 'r1',
        'content-length': '13',
      },
    });
  });

  test('for a stream accepts text/event-stream', async () => {
    const { origin, requests: postBody } = await upstream();
    await sent(provider('vllm', origin), { stream: true });
    expect(postBody[0]?.headers.accept).toBe('text/event-stream');
    expect(postBody[0]?.headers).not.toHaveProperty('authorization');
  });

  test('uses several API keys in turn', async () => {
    const { origin, requests: postBody } = await upstream();
    const keyed = provider('openai', origin, { apiKeys: ['a', 'b', 'c'] });
    for (let turn = 0; turn < 4; turn++) await sent(keyed);
    expect(postBody.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer a',
      'Bearer b',
      'Bearer c',
      'Bearer a',
    ]);
  });

  test('carries the credentials of the base URL when there is no key', async () => {
    const { origin, requests: postBody } = await upstream();
    await sent(provider('vllm', origin.replace('//', '//user:p%40ss@')));
    expect(postBody[0]?.headers.authorization).toBe(`Basic ${Buffer.from('user:p@ss').toString('base64')}`);
  });

  test('sends OpenRouter the site and the name of the application', async () => {
    const { origin, requests: postBody } = await upstream();
    const options = { siteUrl: 'https://example.org', appName: 'Example' };
    await sent(provider('openrouter', origin, { options }));
    expect(postBody[0]).toMatchObject({
      path: '/api/v1/chat/completions',
      headers: { 'http-referer': 'https://example.org', 'x-title': 'Example' },
    });
  });

  test('that fails has the name of the provider in its error', async () => {
    const broken = provider('vllm', await deadOrigin(), { name: 'vllm-gpu' });
    await expect(broken.send(call())).rejects.toMatchObject({ kind: 'unreachable', provider: 'vllm-gpu' });
  });
});

describe('a base URL', () => {
  test.each([
    ['', '/v1/chat/completions'],
    ['/', '/v1/chat/completions'],
    ['/v1', '/v1/chat/completions'],
    ['/v1/', '/v1/chat/completions'],
    ['/proxy//llm/v1//', '/proxy/llm/v1/chat/completions'],
    ['/custom', '/custom/chat/completions'],
    ['/v1?tenant=a', '/v1/chat/completions?tenant=a'],
  ])('that ends in %j leads to %s', async (end, path) => {
    const { origin, requests: postBody } = await upstream();
    await sent(provider('openai', ` ${origin}${end} `));
    expect(postBody[0]?.path).toBe(path);
  });

  test.each([
    ['groq', '/openai/v1/chat/completions'],
    ['gemini', '/v1beta/openai/chat/completions'],
    ['openrouter', '/api/v1/chat/completions'],
    ['mistral', '/v1/chat/completions'],
  ])('without a path is completed as %s has it', async (type, path) => {
    const { origin, requests: postBody } = await upstream();
    await sent(provider(type, origin));
    expect(postBody[0]?.path).toBe(path);
  });

  test.each(['', 'localhost:8000', 'ftp://host/v1', 'http://', '/v1'])(
    'like %j is refused without repeating it',
    (url) => {
      expect(() => provider('openai', url)).toThrow(
        /^provider openai: the base URL must be an absolute URL that begins with http:\/\/ or https:\/\/$/,
      );
    },
  );

  test('of an unknown type is refused by its name', () => {
    expect(() => provider('nobody', 'http://host/v1')).toThrow('provider nobody: there is no provider type nobody');
  });
});

describe('capabilities', () => {
  test('are those of the type, changed by what probes learn of responses', async () => {
    const { origin } = await upstream();
    const vllm = provider('vllm', origin);
    expect(vllm.capabilities).toEqual({
      chat: 'yes',
      responses: 'unknown',
      embeddings: 'yes',
      responseLifecycle: 'no',
      passthrough: true,
      serves: ['completions', 'transcriptions', 'speech', 'images'],
    });
    vllm.learnResponses(false);
    expect(vllm.capabilities.responses).toBe('no');
    vllm.learnResponses(true);
    expect(vllm.capabilities.responses).toBe('yes');
  });

  test('a provider without /v1/responses is tried again after an hour, and when it changed', async () => {
    const { origin } = await upstream();
    const vllm = provider('vllm', origin);
    vllm.learnResponses(false, Date.now() - RESPONSES_PROBE_MS + 60_000);
    expect(vllm.capabilities.responses).toBe('no');
    vllm.learnResponses(false, Date.now() - RESPONSES_PROBE_MS);
    expect(vllm.capabilities.responses).toBe('unknown');
    vllm.learnResponses(false);
    vllm.learnResponses(undefined);
    expect(vllm.capabilities.responses).toBe('unknown');
    const ollama = provider('mistral', origin);
    ollama.learnResponses(undefined);
    expect(ollama.capabilities.responses).toBe('no');
  });

  test('redacting removes every key, and nothing without keys', async () => {
    const { origin } = await upstream();
    const keyed = provider('openai', origin, { apiKeys: ['key-one', 'key-two', 'x'] });
    expect(keyed.redact('key-one, key-two and x')).toBe('[redacted], [redacted] and x');
    expect(provider('vllm', origin).redact('text')).toBe('text');
  });
});

describe('the model listing', () => {
  test('is requested below the base URL, with the credentials', async () => {
    const { origin, requests: postBody } = await upstream(
      lists({ object: 'list', data: [{ id: 'a', object: 'model', created: 12, owned_by: 'me' }] }),
    );
    const models = await provider('openai', origin, { apiKeys: ['k'] }).listModels(signal);
    expect(models).toEqual([{ id: 'a', created: 12, ownedBy: 'me' }]);
    expect(postBody[0]).toMatchObject({ method: 'GET', path: '/v1/models', headers: { authorization: 'Bearer k' } });
  });

  test('may be a bare list, of objects or ids, with garbage in it', async () => {
    const garbage = [null, 7, {}, { id: 3 }, { id: '  ' }, [], { id: 'x'.repeat(600) }];
    const { origin } = await upstream(
      lists([
        ...garbage,
        'plain',
        { id: ' trimmed ', created: 'then' },
        { id: 'trimmed', created: 9 },
        { id: 'b', created: 1.9 },
      ]),
    );
    expect(await provider('vllm', origin).listModels(signal)).toEqual([
      { id: 'plain', created: 0, ownedBy: 'vllm' },
      { id: 'trimmed', created: 0, ownedBy: 'vllm' },
      { id: 'b', created: 1, ownedBy: 'vllm' },
    ]);
  });

  test('may be empty', async () => {
    const { origin } = await upstream(lists({ data: [] }));
    expect(await provider('vllm', origin).listModels(signal)).toEqual([]);
  });

  test('has the sizes of context and output under any of their names', async () => {
    const { origin } = await upstream(
      lists({
        data: [
          { id: 'vllm', max_model_len: 4096 },
          { id: 'groq', context_window: 8192, max_completion_tokens: 1024 },
          { id: 'openrouter', context_length: 100, name: 'Open: Router', description: 'text' },
          { id: 'mistral', max_context_length: 32768 },
          { id: 'odd', context_window: '8192', max_model_len: -1, context_length: 0, name: 7 },
        ],
      }),
    );
    const models = await provider('vllm', origin).listModels(signal);
    expect(models.map(({ metadata }) => metadata)).toEqual([
      { context_window: 4096 },
      { context_window: 8192, max_output_tokens: 1024 },
      { context_window: 100, display_name: 'Open: Router', description: 'text' },
      { context_window: 32768 },
      undefined,
    ]);
  });

  test("of Gemini loses its ids' prefix", async () => {
    const { origin } = await upstream(lists({ data: [{ id: 'models/gemini-2.5-pro' }] }));
    expect(await provider('gemini', origin).listModels(signal)).toMatchObject([{ id: 'gemini-2.5-pro' }]);
  });

  test.each<[string, Answer, string]>([
    ['an error', lists({ error: { message: 'bad key k-123456' } }, 401), 'bad key [redacted]'],
    [
      'a web page',
      (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html></html>'),
      'it answered the model listing with something else (text/html)',
    ],
    [
      'JSON of another kind',
      lists({ models: 'none' }),
      'it answered the model listing with something else (JSON of another shape)',
    ],
    ['nothing', (_request, response) => response.end(), 'something else (no content type)'],
    ['a redirect', (_request, response) => response.writeHead(302, { location: '/login' }).end(), 'status 302 (Found)'],
  ])('that is %s is an error', async (_name, answer, message) => {
    const { origin } = await upstream(answer);
    const listing = provider('openai', origin, { apiKeys: ['k-123456'] }).listModels(signal);
    await expect(listing).rejects.toThrow(message);
    await expect(listing).rejects.toBeInstanceOf(UpstreamError);
  });

  test('of more than 8 MB is cut off', async () => {
    const { origin } = await upstream((_request, response) => response.end(`["${'x'.repeat(9_000_000)}"]`));
    await expect(provider('openai', origin).listModels(signal)).rejects.toMatchObject({ kind: 'too_large' });
  });

  test('ends when its caller gives up', async () => {
    const { origin, requests: postBody } = await upstream(() => {});
    const abort = new AbortController();
    const listing = provider('openai', origin).listModels(abort.signal);
    while (postBody.length === 0) await new Promise(setImmediate);
    abort.abort();
    await expect(listing).rejects.toMatchObject({ kind: 'aborted' });
  });
});

describe('passthrough', () => {
  test.each([
    ['/chat/completions', '/base/v1/chat/completions'],
    ['/v1/chat/completions', '/base/v1/chat/completions'],
    ['/v1/files?limit=1&after=a%2Fb', '/base/v1/files?limit=1&after=a%2Fb'],
    ['/v1', '/base/v1/'],
    ['/v1beta/x', '/base/v1/v1beta/x'],
    ['/../../admin', '/base/v1/admin'],
    ['/v1/%2e%2E/%2e%2e/admin?x=..', '/base/v1/admin?x=..'],
    ['/a\\..\\..\\..\\admin', '/base/v1/admin'],
  ])('of %s reaches %s', async (path, reached) => {
    const { origin, requests: postBody } = await upstream();
    await forwarded(provider('openai', `${origin}/base/v1`), path);
    expect(postBody[0]?.path).toBe(reached);
  });

  test('of a vLLM server has its root routes', async () => {
    const { origin, requests: postBody } = await upstream();
    const vllm = provider('vllm', `${origin}/v1`);
    for (const path of ['/tokenize', '/v1/score', '/audio/transcriptions', '/embeddings']) await forwarded(vllm, path);
    expect(postBody.map(({ path }) => path)).toEqual([
      '/tokenize',
      '/v1/score',
      '/v1/audio/transcriptions',
      '/v1/embeddings',
    ]);
  });

  test("keeps the caller's headers but for those of the hop and the provider's own", async () => {
    const { origin, requests: postBody } = await upstream();
    await forwarded(provider('openai', origin, { apiKeys: ['k'] }), '/files', {
      accept: 'text/csv',
      'content-type': 'text/plain',
      'openai-beta': 'assistants=v2',
      authorization: 'Bearer stolen',
      connection: 'upgrade',
      'content-length': '999',
      host: 'evil',
      'transfer-encoding': 'chunked',
      'accept-encoding': 'gzip',
      expect: '100-continue',
      'x-request-id': 'theirs',
    });
    expect(postBody[0]?.headers).toMatchObject({
      accept: 'text/csv',
      'content-type': 'text/plain',
      'openai-beta': 'assistants=v2',
      authorization: 'Bearer k',
      'content-length': '2',
      'accept-encoding': 'identity',
      'x-request-id': 'r1',
      host: new URL(origin).host,
    });
  });

  test('hands over any answer of the provider', async () => {
    const { origin } = await upstream((_request, response) => response.writeHead(418, { 'x-a': 'b' }).end('teapot'));
    const reply = await provider('openai', origin).forward({
      method: 'GET',
      path: '/x',
      headers: {},
      requestId: 'r',
      signal,
    });
    expect(reply).toMatchObject({ status: 418, headers: { 'x-a': 'b' } });
    expect((await reply.body.bytes(10)).toString()).toBe('teapot');
  });
});

describe('Azure', () => {
  const options = { apiVersion: '2025-01-01' };

  test('by its resource or its v1 address names the deployment in the body', async () => {
    const { origin, requests: postBody } = await upstream();
    for (const end of ['', '/openai/v1', '/openai/v1/']) {
      const azure = provider('azure', origin + end, { apiKeys: ['k'], options });
      await sent(azure);
      expect(azure.capabilities.responses).toBe('yes');
    }
    expect(new Set(postBody.map(({ path }) => path))).toEqual(new Set(['/openai/v1/chat/completions']));
    expect(postBody[0]?.headers).toMatchObject({ 'api-key': 'k' });
    expect(postBody[0]?.headers).not.toHaveProperty('authorization');
  });

  test('by the address of a deployment sends the API version with every call', async () => {
    const { origin, requests: postBody } = await upstream();
    const base = `${origin}/openai/deployments/my%20gpt`;
    const azure = provider('azure', base, { apiKeys: ['k'], options });
    await sent(azure);
    await forwarded(azure, '/images/generations?a=1');
    await forwarded(azure, '/images/generations?api-version=mine');
    expect(postBody.map(({ path }) => path)).toEqual([
      '/openai/deployments/my%20gpt/chat/completions?api-version=2025-01-01',
      '/openai/deployments/my%20gpt/images/generations?a=1&api-version=2025-01-01',
      '/openai/deployments/my%20gpt/images/generations?api-version=mine',
    ]);
    expect(azure.capabilities).toMatchObject({ responses: 'no', responseLifecycle: 'no', embeddings: 'yes' });
    expect(await azure.listModels(signal)).toEqual([{ id: 'my gpt', created: 0, ownedBy: 'azure' }]);
  });

  test('has a default API version, and takes one from the base URL first', async () => {
    const { origin, requests: postBody } = await upstream();
    await sent(provider('azure', `${origin}/openai/deployments/d`));
    await sent(provider('azure', `${origin}/openai/deployments/d?api-version=url`, { options }));
    expect(postBody.map(({ path }) => path.split('?')[1])).toEqual(['api-version=2024-10-21', 'api-version=url']);
  });
});
