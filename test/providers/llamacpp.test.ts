import { afterEach, describe, expect, test } from 'vitest';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { createRegistry } from '../../src/providers/registry.ts';
import { isErrorBody } from '../../src/providers/upstream-error.ts';
import { configured } from './configured.ts';
import {
  type Answer,
  json,
  recorded,
  recordedBody,
  recordedNames,
  replay,
  startUpstream,
  type Upstream,
} from './upstream.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

async function serving(answer: Answer): Promise<Upstream & { llamacpp: Provider }> {
  const upstream = await startUpstream(answer);
  const llamacpp = createProvider(configured('llamacpp', `${upstream.origin}/v1`));
  closing.push(
    () => upstream.close(),
    () => llamacpp.close(),
  );
  return { ...upstream, llamacpp };
}

const signal = new AbortController().signal;

/** A server with the given listing and `/props`. */
function server(entries: unknown[], props?: unknown): Answer {
  return ({ path }, response) => {
    if (path === '/v1/models') json(response, 200, { object: 'list', data: entries });
    else if (path === '/props' && props !== undefined) json(response, 200, props);
    else json(response, 404, { error: { code: 404, message: 'File Not Found', type: 'not_found_error' } });
  };
}

async function metadataOf(answer: Answer): Promise<unknown[]> {
  const { llamacpp } = await serving(answer);
  return (await llamacpp.listModels(signal)).map(({ metadata }) => metadata);
}

describe('the context window', () => {
  const meta = { n_ctx: 4096, n_ctx_train: 131072 };
  const props = { default_generation_settings: { n_ctx: 512 } };

  test('comes from the entry', async () => {
    expect(await metadataOf(server([{ id: 'm', meta }], props))).toEqual([{ context_window: 4096 }]);
  });

  test('comes from /props when the entry has none', async () => {
    expect(await metadataOf(server([{ id: 'm', meta: { n_ctx_train: 131072 } }], props))).toEqual([
      { context_window: 512 },
    ]);
  });

  test('is the trained size when neither has one', async () => {
    const entry = { id: 'm', meta: { n_ctx_train: 131072 } };
    expect(await metadataOf(server([entry]))).toEqual([{ context_window: 131072 }]);
    expect(await metadataOf(server([entry], { default_generation_settings: { n_ctx: 0 } }))).toEqual([
      { context_window: 131072 },
    ]);
  });

  test('is not invented', async () => {
    for (const odd of [{ id: 'm' }, { id: 'm', meta: null }, { id: 'm', meta: { n_ctx: 'many', n_ctx_train: -1 } }]) {
      expect(await metadataOf(server([odd]))).toEqual([undefined]);
    }
  });

  test('is also read from max_model_len, the member of plain OpenAI-compatible servers', async () => {
    expect(await metadataOf(server([{ id: 'm', max_model_len: 2048 }]))).toEqual([{ context_window: 2048 }]);
  });

  test('of several models comes from each entry, without a call of /props', async () => {
    const { llamacpp, requests } = await serving(
      server([{ id: 'a', meta }, { id: 'b', meta: { n_ctx_train: 8 } }, { id: 'c' }], props),
    );
    const models = await llamacpp.listModels(signal);
    expect(models.map(({ metadata }) => metadata?.context_window)).toEqual([4096, 8, undefined]);
    expect(requests.map(({ path }) => path)).toEqual(['/v1/models']);
  });
});

describe('modalities', () => {
  test('that /props reports as true become capabilities', async () => {
    const props = { modalities: { vision: true, audio: false, video: true, smell: true } };
    expect(await metadataOf(server([{ id: 'm' }], props))).toEqual([{ capabilities: { vision: true, video: true } }]);
  });

  test('that are anything but true do not', async () => {
    for (const modalities of [{ vision: 'yes', audio: 1 }, ['vision'], null, 'vision']) {
      expect(await metadataOf(server([{ id: 'm' }], { modalities }))).toEqual([undefined]);
    }
  });

  test.each<[string, Answer]>([
    ['fails', (_request, response) => json(response, 500, {})],
    ['is a web page', (_request, response) => response.end('<html></html>')],
    ['is a list', (_request, response) => json(response, 200, [])],
    ['breaks off', (_request, response) => response.destroy()],
  ])('are unknown when /props %s, and the listing is kept', async (_name, propsAnswer) => {
    const list = server([{ id: 'm', meta: { n_ctx_train: 8 } }]);
    const answer: Answer = (request, response) =>
      request.path === '/props' ? propsAnswer(request, response) : list(request, response);
    expect(await metadataOf(answer)).toEqual([{ context_window: 8 }]);
  });
});

describe('a server that loads its model', () => {
  const props = { default_generation_settings: { n_ctx: 512 }, modalities: { vision: true } };
  const described = { context_window: 512, capabilities: { vision: true } };

  /** Lists its model at once; `/props` fails in the given way until `loaded` is called. */
  async function loading(propsAnswer: Answer) {
    const list = server([{ id: 'm', meta: null }], props);
    let isLoaded = false;
    const { llamacpp } = await serving((request, response) =>
      request.path === '/props' && !isLoaded ? propsAnswer(request, response) : list(request, response),
    );
    return { llamacpp, load: () => (isLoaded = true), unload: () => (isLoaded = false) };
  }

  const busy: Answer = (_request, response) =>
    json(response, 503, { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } });

  test.each<[string, Answer]>([
    ['503', busy],
    ['a broken connection', (_request, response) => response.destroy()],
  ])('is listed again soon after %s of /props, until its model is described', async (_what, propsAnswer) => {
    const { llamacpp, load } = await loading(propsAnswer);
    const lists: unknown[] = [];
    const twice = Promise.withResolvers<void>();
    const registry = createRegistry({
      providers: [{ provider: llamacpp, config: { models: [], modelsMode: 'fallback' } }],
      recheckIntervalMs: 20,
      onListed: (_provider, models) => {
        lists.push(models.map(({ id, metadata }) => ({ id, metadata })));
        if (lists.length === 2) twice.resolve();
      },
    });
    await registry.ready;
    expect(registry.resolve('llamacpp/m')).toBeDefined();
    load();
    await twice.promise;
    expect(lists).toEqual([[{ id: 'm', metadata: undefined }], [{ id: 'm', metadata: described }]]);
    expect(registry.list()[0]?.metadata).toEqual(described);
    registry.close();
  });

  test('keeps the description that is known from before', async () => {
    const { llamacpp, load, unload } = await loading(busy);
    load();
    const registry = createRegistry({
      providers: [{ provider: llamacpp, config: { models: [], modelsMode: 'fallback' } }],
    });
    await registry.ready;
    unload();
    await registry.refresh();
    expect(registry.list()[0]?.metadata).toEqual(described);
    registry.close();
  });

  test('has a complete list where there is no /props', async () => {
    const { llamacpp } = await serving(server([{ id: 'm' }]));
    expect(await llamacpp.listModels(signal)).toEqual([{ id: 'm', created: 0, ownedBy: 'llamacpp' }]);
  });

  test('is listed within seconds after it is up, however seldom others are tried', async () => {
    let isUp = false;
    const list = server([{ id: 'm' }]);
    const { llamacpp } = await serving((request, response) => (isUp ? list(request, response) : response.destroy()));
    const listed = Promise.withResolvers<number>();
    const registry = createRegistry({
      providers: [{ provider: llamacpp, config: { models: [], modelsMode: 'fallback' } }],
      recheckIntervalMs: 3_600_000,
      onListed: () => listed.resolve(performance.now()),
    });
    await registry.ready;
    const upAt = performance.now();
    isUp = true;
    expect((await listed.promise) - upAt).toBeLessThan(4000);
    registry.close();
  });
});

describe('the recorded server', () => {
  test.each([
    ['models.alias', 'tiny-random'],
    ['models.noalias', '/models/tiny-random.gguf'],
  ])('with %s serves %s, with the context it runs with', async (name, id) => {
    const { llamacpp } = await serving(replay(name, 'props'));
    expect(await llamacpp.listModels(signal)).toEqual([
      { id, created: 1795220620, ownedBy: 'llamacpp', metadata: { context_window: 512 } },
    ]);
  });

  test('without an alias is addressed by the path of its file', async () => {
    const { llamacpp } = await serving(replay('models.noalias', 'props'));
    const registry = createRegistry({
      providers: [{ provider: llamacpp, config: { models: [], modelsMode: 'fallback' } }],
    });
    await registry.ready;
    for (const selector of ['llamacpp//models/tiny-random.gguf', '/models/tiny-random.gguf']) {
      expect(registry.resolve(selector)).toMatchObject({ model: '/models/tiny-random.gguf' });
    }
    registry.close();
  });

  test('is overridden by declared models, member by member', async () => {
    const { llamacpp } = await serving(
      server([{ id: 'm', meta: { n_ctx: 4096 } }], { modalities: { vision: true, audio: true } }),
    );
    const metadata = { display_name: 'Tiny', context_window: 1024, capabilities: { audio: false, tools: true } };
    const config = { models: [{ id: 'm', metadata }], modelsMode: 'fallback' as const };
    const registry = createRegistry({ providers: [{ provider: llamacpp, config }] });
    await registry.ready;
    expect(registry.list()[0]?.metadata).toEqual({
      display_name: 'Tiny',
      context_window: 1024,
      capabilities: { vision: true, audio: false, tools: true },
    });
    registry.close();
  });

  const pairs = recordedNames().map((name) => ({ name, ...recorded(name) }));

  test.each(pairs.filter(({ request }) => request.method === 'POST'))(
    'answers $name through passthrough byte for byte',
    async ({ name, request, response }) => {
      const { llamacpp, requests } = await serving(replay(name));
      const body = Buffer.from(typeof request.body === 'string' ? request.body : JSON.stringify(request.body));
      const reply = await llamacpp.forward({
        method: 'POST',
        path: request.path,
        headers: {},
        body,
        requestId: 'r',
        signal,
      });
      expect(reply.status).toBe(response.status);
      const bytes = await reply.body.bytes(1_000_000);
      expect(bytes.toString()).toBe(recordedBody(recorded(name)));
      expect(requests[0]).toMatchObject({ path: request.path, body: body.toString() });
      expect(isErrorBody(response.body)).toBe(response.status >= 400);
    },
  );
});

describe('passthrough', () => {
  test.each([
    ['/models', '/v1/models'],
    ['/chat/completions', '/v1/chat/completions'],
    ['/v1/chat/completions', '/v1/chat/completions'],
    ['/responses', '/v1/responses'],
    ['/v1/completions', '/v1/completions'],
    ['/embeddings?x=1', '/v1/embeddings?x=1'],
    ['/rerank', '/rerank'],
    ['/v1/rerank', '/v1/rerank'],
    ['/health', '/health'],
    ['/props', '/props'],
    ['/tokenize', '/tokenize'],
    ['/infill', '/infill'],
    ['/embedding', '/embedding'],
    ['/models/load', '/models/load'],
    ['/slots/0?action=save', '/slots/0?action=save'],
    ['/', '/'],
  ])('of %s reaches %s', async (path, reached) => {
    const { llamacpp, requests } = await serving((_request, response) => json(response, 200, {}));
    const reply = await llamacpp.forward({ method: 'GET', path, headers: {}, requestId: 'r', signal });
    await reply.body.bytes(100);
    expect(requests[0]?.path).toBe(reached);
  });

  test('reaches the root of a server that is mounted below a path', async () => {
    const { origin, requests } = await serving((_request, response) => json(response, 200, {}));
    const mounted = createProvider(configured('llamacpp', `${origin}/gpu/v1`));
    for (const path of ['/rerank', '/v1/rerank', '/v1/embeddings', '/../../other']) {
      await (await mounted.forward({ method: 'POST', path, headers: {}, requestId: 'r', signal })).body.bytes(100);
    }
    await mounted.close();
    expect(requests.map(({ path }) => path)).toEqual([
      '/gpu/rerank',
      '/gpu/v1/rerank',
      '/gpu/v1/embeddings',
      '/gpu/other',
    ]);
  });
});

test('responses are tried until the server shows that it lacks them', async () => {
  const { llamacpp } = await serving(replay('responses.error.absent'));
  expect(llamacpp.capabilities).toMatchObject({ responses: 'unknown', responseLifecycle: 'no' });
  const reply = await llamacpp.send({
    dialect: 'responses',
    body: Buffer.from('{}'),
    stream: false,
    requestId: 'r',
    signal,
  });
  expect(reply.status).toBe(404);
  await reply.body.bytes(1000);
  llamacpp.learnResponses(false);
  expect(llamacpp.capabilities.responses).toBe('no');
});
