import { afterEach, describe, expect, test } from 'vitest';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { configured } from './configured.ts';
import { type Answer, json, startUpstream, type Upstream } from './upstream.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

async function upstream(answer: Answer = (_request, response) => json(response, 200, { ok: true })): Promise<Upstream> {
  const started = await startUpstream(answer);
  closing.push(() => started.close());
  return started;
}

function ollama(baseUrl: string): Provider {
  const created = createProvider(configured('ollama', baseUrl));
  closing.push(() => created.close());
  return created;
}

const signal = new AbortController().signal;

const shown: Record<string, unknown> = {
  'llama3.2:latest': {
    capabilities: ['completion', 'tools'],
    model_info: { 'general.architecture': 'llama', 'llama.context_length': 131_072 },
    parameters: 'stop "x"',
  },
  'small:latest': {
    capabilities: ['completion', 'vision', 'thinking'],
    model_info: { 'general.architecture': 'qwen', 'qwen.context_length': 40_960 },
    parameters: 'temperature 0.7\nnum_ctx    8192\n',
  },
  'embed:latest': { capabilities: ['embedding'] },
};
const tags = {
  models: [
    ...Object.keys(shown).map((model) => ({
      name: model,
      model,
      modified_at: '2026-01-02T03:04:05.678Z',
      details: { family: 'llama', parameter_size: '3B' },
    })),
    { name: 'gone:latest' },
    { size: 7 },
  ],
};
const serves: Answer = ({ path, body }, response) => {
  if (path === '/api/tags') return json(response, 200, tags);
  const model = shown[JSON.parse(body).model];
  return model === undefined ? json(response, 404, { error: 'model not found' }) : json(response, 200, model);
};

describe('Ollama', () => {
  test.each(['', '/', '/v1', '/v1/'])('is called below its root with a base URL that ends in "%s"', async (ending) => {
    const { origin, requests } = await upstream();
    const provider = ollama(origin + ending);
    for (const dialect of ['ollama_chat', 'ollama_embed'] as const) {
      const reply = await provider.send({ dialect, body: Buffer.from('{}'), stream: false, requestId: 'r', signal });
      await reply.body.bytes(1000);
    }
    expect(requests.map(({ path }) => path)).toEqual(['/api/chat', '/api/embed']);
    expect(requests[0]?.headers).not.toHaveProperty('authorization');
  });

  test('keeps a path in front of its routes', async () => {
    const { origin, requests } = await upstream();
    const call = { dialect: 'ollama_chat', body: Buffer.from('{}'), stream: false, requestId: 'r', signal } as const;
    await (await ollama(`${origin}/local/v1`).send(call)).body.bytes(1000);
    expect(requests[0]?.path).toBe('/local/api/chat');
  });

  test('has every route reached by passthrough, those of OpenAI below /v1', async () => {
    const { origin, requests } = await upstream();
    const provider = ollama(origin);
    for (const path of ['/api/ps', '/v1/models', '/api/tags?x=1']) {
      await (await provider.forward({ method: 'GET', path, headers: {}, requestId: 'r', signal })).body.bytes(1000);
    }
    expect(requests.map(({ path }) => path)).toEqual(['/api/ps', '/v1/models', '/api/tags?x=1']);
  });

  test('lists the installed models, with the metadata of each', async () => {
    const { origin } = await upstream(serves);
    const common = { created: 1_767_323_045, ownedBy: 'ollama' };
    expect(await ollama(origin).listModels(signal)).toEqual([
      {
        ...common,
        id: 'llama3.2:latest',
        metadata: { family: 'llama', context_window: 131_072, modes: ['chat'], capabilities: { tools: true } },
      },
      {
        ...common,
        id: 'small:latest',
        metadata: {
          family: 'llama',
          context_window: 8192,
          modes: ['chat'],
          capabilities: { vision: true, thinking: true },
        },
      },
      { ...common, id: 'embed:latest', metadata: { family: 'llama', modes: ['embedding'] } },
      { id: 'gone:latest', created: 0, ownedBy: 'ollama' },
    ]);
  });

  test('marks models that it could not describe for now, and not those that it never can', async () => {
    const models = ['busy', 'gone', 'broken'].map((name) => ({ model: name }));
    const { origin } = await upstream(({ path, body }, response) => {
      if (path === '/api/tags') json(response, 200, { models });
      else if (body.includes('busy')) json(response, 503, { error: 'server busy' });
      else if (body.includes('gone')) json(response, 404, { error: 'not found' });
      else response.destroy();
    });
    const listed = await ollama(origin).listModels(signal);
    expect(listed.map(({ id, isIncomplete }) => [id, isIncomplete])).toEqual([
      ['busy', true],
      ['gone', undefined],
      ['broken', true],
    ]);
  });

  test('requests at most 64 descriptions', async () => {
    const models = Array.from({ length: 70 }, (_, index) => ({ model: `m${index}` }));
    const { origin, requests } = await upstream(({ path }, response) =>
      json(response, 200, path === '/api/tags' ? { models } : {}),
    );
    expect(await ollama(origin).listModels(signal)).toHaveLength(70);
    expect(requests).toHaveLength(65);
  });

  test('with an unexpected list is an error', async () => {
    const { origin } = await upstream();
    await expect(ollama(origin).listModels(signal)).rejects.toThrow('something else');
  });
});
