import { afterAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

const FILE = '/srv/models/tiny model.gguf';
let single: SimulatedProvider;
const gateway = withGateway(async () => {
  single = createSimulatedProvider({
    models: [FILE],
    props: { contextWindow: 8192, modalities: { vision: true, audio: false } },
  });
  const url = await single.listen();
  return {
    simulated: {
      models: [
        { id: 'router-a', meta: { n_ctx: 2048, n_ctx_train: 131072 } },
        { id: 'router-b', meta: { n_ctx_train: 4096 } },
        'vendor/family/model-7b',
        'text-embedding-e5',
        'some-reranker',
      ],
    },
    register: (own) => ({ LLAMACPP_BASE_URL: own, LLAMACPP_GPU_BASE_URL: url }),
  };
});
afterAll(() => single.close());

const list = async () => json(await gateway.fetch('/v1/models'));
const names = ['router-a', 'router-b', 'vendor/family/model-7b', 'text-embedding-e5', 'some-reranker'];

describe('GET /v1/models', () => {
  it('lists the models of every provider under its name', async () => {
    const { object, data } = await list();
    expect(object).toBe('list');
    expect(data.map(({ id }: { id: string }) => id)).toEqual([
      ...names.map((name) => `llamacpp/${name}`),
      `llamacpp-gpu/${FILE}`,
    ]);
    for (const entry of data) {
      expect(entry).toMatchObject({ object: 'model', created: expect.any(Number), owned_by: expect.any(String) });
    }
  });

  it('returns the context window that a model runs with, and whether it accepts images', async () => {
    const { data } = await list();
    const metadata = Object.fromEntries(
      data.map(({ id, metadata }: { id: string; metadata: object }) => [id, metadata]),
    );
    expect(metadata['llamacpp/router-a']).toMatchObject({ context_window: 2048 });
    expect(metadata['llamacpp/router-b']).toMatchObject({ context_window: 4096 });
    expect(metadata[`llamacpp-gpu/${FILE}`]).toEqual({ context_window: 8192, capabilities: { vision: true } });
    expect(gateway.simulated.requests.filter(({ path }) => path === '/props')).toEqual([]);
  });

  it('needs a key', async () => {
    const answer = await fetch(`${gateway.url}/v1/models`);
    expect(await errorOf(answer, 401)).toMatchObject({ type: 'authentication_error' });
  });
});

describe('GET /v1/models/{selector}', () => {
  it.each([
    ['as it is', 'llamacpp/vendor/family/model-7b', 'llamacpp/vendor/family/model-7b'],
    ['escaped', encodeURIComponent('llamacpp/vendor/family/model-7b'), 'llamacpp/vendor/family/model-7b'],
    ['half escaped', 'llamacpp/vendor%2Ffamily/model-7b', 'llamacpp/vendor/family/model-7b'],
    ['a bare id', 'router-a', 'llamacpp/router-a'],
    ['a bare id with slashes', 'vendor/family/model-7b', 'llamacpp/vendor/family/model-7b'],
    ['an escaped file path', encodeURIComponent(`llamacpp-gpu/${FILE}`), `llamacpp-gpu/${FILE}`],
    ['a file path as it is', `llamacpp-gpu/${FILE.replace(' ', '%20')}`, `llamacpp-gpu/${FILE}`],
    ['a bare, escaped file path', encodeURIComponent(FILE), `llamacpp-gpu/${FILE}`],
  ])('finds a model by its selector, %s', async (_form, path, id) => {
    const answer = await gateway.fetch(`/v1/models/${path}`);
    expect(answer.status).toBe(200);
    const listed = (await list()).data.find((entry: { id: string }) => entry.id === id);
    expect(await json(answer)).toEqual(listed);
  });

  it.each([
    'nobody/router-a',
    'llamacpp/no-such',
    'no-such',
    '%00',
    '..%2f..%2fetc%2fpasswd',
    'x'.repeat(3000),
    '%F0%9F%98%80',
  ])('returns a 404 for the model %s', async (path) => {
    expect(await errorOf(await gateway.fetch(`/v1/models/${path}`), 404)).toMatchObject({
      type: 'not_found_error',
      code: 'model_not_found',
      param: 'model',
    });
  });

  it('answers HEAD like GET, without a body', async () => {
    for (const [path, status] of [
      ['/v1/models', 200],
      ['/v1/models/router-a', 200],
      ['/v1/models/no-such', 404],
    ] as const) {
      const answer = await gateway.fetch(path, { method: 'HEAD' });
      expect(answer.status).toBe(status);
      expect(await answer.text()).toBe('');
    }
  });
});
