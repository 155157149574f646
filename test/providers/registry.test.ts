import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ConfiguredModel, ModelsMode, Provider, ProviderModel } from '../../src/providers/provider.ts';
import { createRegistry, type Registry, type RegistryOptions } from '../../src/providers/registry.ts';

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
});
const open: Registry[] = [];
afterEach(() => {
  for (const registry of open.splice(0)) registry.close();
  vi.useRealTimers();
});

const model = (id: string, more: Partial<ProviderModel> = {}): ProviderModel => ({
  id,
  created: 1,
  ownedBy: 'x',
  ...more,
});

/** A provider whose listing a test steers: only that part of it is used here. */
class Listed implements Provider {
  readonly name: string;
  readonly type: string;
  readonly options = {};
  readonly address = 'http://127.0.0.1/v1';
  readonly capabilities = {
    chat: 'yes',
    responses: 'no',
    embeddings: 'no',
    responseLifecycle: 'no',
    passthrough: false,
  } as const;
  readonly answerLimit = { ms: 1000, setting: 'HTTP_TIMEOUT' };
  requestCount = 0;
  pathOf = () => undefined;
  answer: (signal: AbortSignal) => Promise<ProviderModel[]>;

  constructor(name: string, models: readonly string[] | undefined, type = name.split('-')[0] ?? name) {
    this.name = name;
    this.type = type;
    this.answer =
      models === undefined ? () => Promise.reject(new Error('down')) : async () => models.map((id) => model(id));
  }

  lists(...ids: string[]): void {
    this.answer = async () => ids.map((id) => model(id));
  }

  fails(message = 'down'): void {
    this.answer = () => Promise.reject(new Error(message));
  }

  listModels(signal: AbortSignal): Promise<ProviderModel[]> {
    this.requestCount += 1;
    return this.answer(signal);
  }

  send = never;
  forward = never;
  pausedMs = (): number => 0;
  remembers = (): boolean => false;
  canSteer = (): boolean => false;
  learnResponses = (): void => {};
  redact = (text: string): string => text;
  close = async (): Promise<void> => {};
}

function never(): Promise<never> {
  return Promise.reject(new Error('not asked in these tests'));
}

interface Setup extends Omit<Partial<RegistryOptions>, 'providers'> {
  models?: readonly ConfiguredModel[];
  modelsMode?: ModelsMode;
}

function registryOf(
  providers: readonly Provider[],
  { models = [], modelsMode = 'fallback', ...options }: Setup = {},
): Registry {
  const registry = createRegistry({
    providers: providers.map((provider) => ({ provider, config: { models, modelsMode } })),
    ...options,
  });
  open.push(registry);
  return registry;
}

async function listed(providers: readonly Provider[], setup: Setup = {}): Promise<Registry> {
  const registry = registryOf(providers, setup);
  await registry.ready;
  return registry;
}

const selectors = (registry: Registry): string[] => registry.list().map(({ id }) => id);

describe('a selector', () => {
  test('is the instance and the model', async () => {
    const registry = await listed([new Listed('vllm', ['a']), new Listed('vllm-gpu', ['a', 'b'])]);
    expect(registry.resolve('vllm-gpu/a')).toMatchObject({ provider: { name: 'vllm-gpu' }, model: 'a' });
    expect(registry.resolve('vllm/a')).toMatchObject({ provider: { name: 'vllm' }, model: 'a' });
  });

  test('is the type and the model, served by the first instance that has it', async () => {
    const registry = await listed([new Listed('vllm-one', ['a']), new Listed('vllm-two', ['a', 'b'])]);
    expect(registry.resolve('vllm/a')).toMatchObject({ provider: { name: 'vllm-one' } });
    expect(registry.resolve('vllm/b')).toMatchObject({ provider: { name: 'vllm-two' } });
  });

  test('is a bare id, served by the first provider that has it', async () => {
    const registry = await listed([new Listed('openai', ['a']), new Listed('vllm', ['a', 'b'])]);
    expect(registry.resolve('a')).toMatchObject({ provider: { name: 'openai' } });
    expect(registry.resolve('b')).toMatchObject({ provider: { name: 'vllm' } });
  });

  test('may hold more slashes, in the id or as the id', async () => {
    const registry = await listed([new Listed('router', ['router/auto', 'meta/llama-3']), new Listed('openai', ['a'])]);
    expect(registry.resolve('router/router/auto')).toMatchObject({
      provider: { name: 'router' },
      model: 'router/auto',
    });
    expect(registry.resolve('router/auto')).toMatchObject({ provider: { name: 'router' }, model: 'router/auto' });
    expect(registry.resolve('meta/llama-3')).toMatchObject({ provider: { name: 'router' }, model: 'meta/llama-3' });
  });

  test('means the instance before a namespace of the same name', async () => {
    const registry = await listed([new Listed('router', ['openai/a']), new Listed('openai', ['a'])]);
    expect(registry.resolve('openai/a')).toMatchObject({ provider: { name: 'openai' }, model: 'a' });
    expect(registry.resolve('router/openai/a')).toMatchObject({ provider: { name: 'router' }, model: 'openai/a' });
  });

  test('that no list has resolves to nothing', async () => {
    const registry = await listed([new Listed('openai', ['a'])]);
    for (const selector of ['openai/b', 'b', 'nobody/a', '', '/', '/a', 'openai/', 'a/']) {
      expect(registry.resolve(selector), selector).toBeUndefined();
    }
  });

  test('of a provider that was never listed is routed nevertheless', async () => {
    const registry = await listed([new Listed('openai', undefined), new Listed('vllm', ['a'])]);
    const { provider, model: id, listed: entry } = registry.resolve('openai/some/new') ?? {};
    expect([provider?.name, id, entry]).toEqual(['openai', 'some/new', undefined]);
    expect(registry.resolve('new')).toBeUndefined();
  });

  test('of a type whose list is not complete is routed nevertheless', async () => {
    const registry = await listed([new Listed('openrouter', ['a'])]);
    expect(registry.resolve('openrouter/a:nitro')).toMatchObject({ model: 'a:nitro' });
  });

  test('resolves to the same object every time', async () => {
    const registry = await listed([new Listed('openai', ['a'])]);
    expect(registry.resolve('openai/a')).toBe(registry.resolve('a'));
  });
});

describe('a hint', () => {
  test('narrows to a provider by its name or its type', async () => {
    const registry = await listed([new Listed('openai', ['a']), new Listed('vllm-gpu', ['a', 'b'])]);
    expect(registry.resolve('a', 'vllm-gpu')).toMatchObject({ provider: { name: 'vllm-gpu' }, model: 'a' });
    expect(registry.resolve('b', 'vllm')).toMatchObject({ provider: { name: 'vllm-gpu' }, model: 'b' });
    expect(registry.resolve('b', 'openai')).toBeUndefined();
    expect(registry.resolve('a', 'nobody')).toBeUndefined();
  });

  test('is not served by another provider whose bare id reads the same', async () => {
    const registry = await listed([new Listed('openai', ['b']), new Listed('router', ['openai/a'])]);
    expect(registry.resolve('openai/a')).toMatchObject({ provider: { name: 'router' } });
    expect(registry.resolve('a', 'openai')).toBeUndefined();
  });

  test('may repeat the provider of the selector', async () => {
    const registry = await listed([new Listed('openai', ['a']), new Listed('vllm-gpu', ['a'])]);
    expect(registry.resolve('vllm-gpu/a', 'vllm')).toMatchObject({ provider: { name: 'vllm-gpu' }, model: 'a' });
    expect(registry.resolve('openai/a', 'vllm')).toBeUndefined();
  });

  test('goes before an id that looks like another instance', async () => {
    const registry = await listed([new Listed('openai', ['a']), new Listed('router', ['openai/a'])]);
    expect(registry.resolve('openai/a', 'router')).toMatchObject({ provider: { name: 'router' }, model: 'openai/a' });
  });

  test('routes to a provider that was never listed', async () => {
    const registry = await listed([new Listed('openai', undefined)]);
    expect(registry.resolve('a', 'openai')).toMatchObject({ provider: { name: 'openai' }, model: 'a' });
    expect(registry.resolve('openai/a', 'openai')).toMatchObject({ provider: { name: 'openai' }, model: 'a' });
  });

  test('is known when it is the name or the type of a provider', async () => {
    const registry = await listed([new Listed('vllm-gpu', [])]);
    expect(registry.knows('vllm')).toBe(true);
    expect(registry.knows('vllm-gpu')).toBe(true);
    expect(registry.knows('openai')).toBe(false);
    expect(registry.providerByNameOrType('vllm')?.name).toBe('vllm-gpu');
    expect(registry.providerByNameOrType('openai')).toBeUndefined();
  });
});

describe('the list', () => {
  test('names every model by its provider, and is the same array until something changes', async () => {
    const vllm = new Listed('vllm-gpu', ['bge-m3']);
    const registry = await listed([new Listed('openai', ['a']), vllm]);
    expect(registry.list()).toEqual([
      { id: 'openai/a', provider: 'openai', providerType: 'openai', model: 'a', created: 1, ownedBy: 'x' },
      {
        id: 'vllm-gpu/bge-m3',
        provider: 'vllm-gpu',
        providerType: 'vllm',
        model: 'bge-m3',
        created: 1,
        ownedBy: 'x',
        category: 'embedding',
      },
    ]);
    const before = registry.list();
    await registry.refresh();
    expect(registry.list()).toBe(before);
    vllm.lists('other');
    await registry.refresh();
    expect(selectors(registry)).toEqual(['openai/a', 'vllm-gpu/other']);
  });

  test('finds a model by any selector', async () => {
    const registry = await listed([new Listed('vllm-gpu', ['a/b'])]);
    for (const selector of ['vllm-gpu/a/b', 'vllm/a/b', 'a/b']) {
      expect(registry.find(selector)?.id).toBe('vllm-gpu/a/b');
    }
    expect(registry.find('b')).toBeUndefined();
  });

  test('of no provider is empty, which is a valid start', async () => {
    const registry = await listed([]);
    expect(registry.list()).toEqual([]);
    expect(await registry.resolveOrRefresh('a')).toBeUndefined();
  });
});

describe('configured models', () => {
  const models = [{ id: 'a', metadata: { context_window: 8 } }, { id: 'b' }];

  test('as a fallback are used when the list fails or is empty, and describe the listed models otherwise', async () => {
    for (const empty of [new Listed('vllm', undefined), new Listed('vllm', [])]) {
      expect(selectors(await listed([empty], { models }))).toEqual(['vllm/a', 'vllm/b']);
    }
    const registry = await listed([new Listed('vllm', ['a', 'c'])], { models });
    expect(registry.list().map(({ model: id, metadata, created }) => [id, metadata, created])).toEqual([
      ['a', { context_window: 8 }, 1],
      ['c', undefined, 1],
    ]);
  });

  test('as an allowlist are the only models, and the provider is not listed', async () => {
    const vllm = new Listed('vllm', ['a', 'c']);
    const registry = await listed([vllm], { models, modelsMode: 'allowlist' });
    await registry.refresh();
    expect(await registry.resolveOrRefresh('vllm/c')).toBeUndefined();
    expect(selectors(registry)).toEqual(['vllm/a', 'vllm/b']);
    expect(vllm.requestCount).toBe(0);
    expect(registry.status()).toMatchObject([{ state: 'unknown', models: 2 }]);
  });

  test('to be merged come after those that are listed', async () => {
    const registry = await listed([new Listed('vllm', ['c', 'a'])], { models, modelsMode: 'merge' });
    expect(selectors(registry)).toEqual(['vllm/c', 'vllm/a', 'vllm/b']);
    expect(registry.find('a')?.metadata).toEqual({ context_window: 8 });
  });

  test('route before the first list has come', () => {
    const vllm = new Listed('vllm', undefined);
    vllm.answer = () => new Promise(() => {});
    expect(registryOf([vllm], { models }).resolve('b')).toMatchObject({ model: 'b' });
  });
});

describe('listing over time', () => {
  const read = () => {
    const said: unknown[][] = [];
    return {
      said,
      onListed: (name: string, models: readonly ProviderModel[]) =>
        said.push(['listed', name, models.map(({ id }) => id)]),
      onUnavailable: (name: string, message: string) => said.push(['unavailable', name, message]),
      onAvailable: (name: string) => said.push(['available', name]),
    };
  };

  test('does not delay the start', () => {
    const slow = new Listed('vllm', []);
    slow.answer = () => new Promise(() => {});
    const registry = registryOf([slow]);
    expect(registry.list()).toEqual([]);
    expect(registry.status()).toMatchObject([{ name: 'vllm', type: 'vllm', state: 'unknown', models: 0 }]);
  });

  test('begins with the last good list of an earlier run', async () => {
    const { said, ...callbacks } = read();
    const known = new Map([['vllm', [model('old')]]]);
    const down = new Listed('vllm', undefined);
    const registry = await listed([down], { known, ...callbacks });
    expect(selectors(registry)).toEqual(['vllm/old']);
    expect(registry.resolve('vllm/new')).toBeUndefined();
    expect(said).toEqual([['unavailable', 'vllm', 'down']]);
  });

  test('ignores an empty list of an earlier run', async () => {
    const registry = await listed([new Listed('vllm', undefined)], { known: new Map([['vllm', []]]) });
    expect(registry.resolve('vllm/a')).toMatchObject({ model: 'a' });
  });

  test('reports a list only when it differs', async () => {
    const { said, ...callbacks } = read();
    const vllm = new Listed('vllm', ['a']);
    const registry = await listed([vllm], { known: new Map([['vllm', [model('a')]]]), ...callbacks });
    expect(said).toEqual([]);
    vllm.lists('a', 'b');
    await registry.refresh();
    await registry.refresh();
    expect(said).toEqual([['listed', 'vllm', ['a', 'b']]]);
  });

  test('is repeated every hour', async () => {
    const vllm = new Listed('vllm', ['a']);
    const registry = await listed([vllm]);
    vllm.lists('b');
    await vi.advanceTimersByTimeAsync(3_599_000);
    expect(vllm.requestCount).toBe(1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(vllm.requestCount).toBe(2);
    expect(selectors(registry)).toEqual(['vllm/b']);
  });

  test('is repeated every minute while it fails, and the last good list stays', async () => {
    const { said, ...callbacks } = read();
    const openai = new Listed('openai', ['a']);
    const registry = await listed([openai], callbacks);
    openai.fails('connection refused');
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(registry.status()).toEqual([
      {
        name: 'openai',
        type: 'openai',
        state: 'unavailable',
        models: 1,
        remembered: false,
        allowlist: false,
        lastAttemptAt: expect.any(Number),
        lastListedAt: 1_000_000,
        lastError: 'connection refused',
      },
    ]);
    expect(registry.resolve('openai/a')).toMatchObject({ model: 'a' });
    await vi.advanceTimersByTimeAsync(120_000);
    expect(openai.requestCount).toBe(4);
    openai.lists('a');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(registry.status()).toMatchObject([{ state: 'available', lastListedAt: 4_780_000, lastError: undefined }]);
    expect(said).toEqual([
      ['listed', 'openai', ['a']],
      ['unavailable', 'openai', 'connection refused'],
      ['available', 'openai'],
    ]);
  });

  test('gives a silent provider ten seconds, even one that ignores its signal', async () => {
    const silent = new Listed('vllm', []);
    silent.answer = () => new Promise(() => {});
    const registry = registryOf([silent]);
    await vi.advanceTimersByTimeAsync(10_000);
    await registry.ready;
    expect(registry.status()).toMatchObject([{ state: 'unavailable', lastError: 'no model list within 10000 ms' }]);
  });

  test('of one provider does not wait for another', async () => {
    const silent = new Listed('openai', []);
    silent.answer = () => new Promise(() => {});
    const registry = registryOf([silent, new Listed('vllm', ['a'])]);
    await vi.advanceTimersByTimeAsync(0);
    expect(selectors(registry)).toEqual(['vllm/a']);
  });

  test('ends with the registry, and later lists are not reported', async () => {
    const { said, ...callbacks } = read();
    const vllm = new Listed('vllm', []);
    let answer = (_models: ProviderModel[]): void => {};
    vllm.answer = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    for (const end of [(registry: Registry) => registry.close(), () => answer([model('a')])]) {
      const registry = registryOf([vllm], callbacks);
      end(registry);
      answer([model('a')]);
      registry.close();
      await registry.ready;
    }
    await vi.advanceTimersByTimeAsync(7_200_000);
    expect(vllm.requestCount).toBe(2);
    expect(said).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a request for an unknown model', () => {
  test('lists its provider again, and finds the new model', async () => {
    const vllm = new Listed('vllm', ['a']);
    const other = new Listed('openai', []);
    const registry = await listed([vllm, other]);
    await vi.advanceTimersByTimeAsync(5_000);
    vllm.lists('a', 'new');
    expect(await registry.resolveOrRefresh('vllm/new')).toMatchObject({ model: 'new' });
    expect([vllm.requestCount, other.requestCount]).toEqual([2, 1]);
  });

  test('lists at most once in five seconds, however many requests there are', async () => {
    const vllm = new Listed('vllm', ['a']);
    const registry = await listed([vllm]);
    expect(await registry.resolveOrRefresh('vllm/new')).toBeUndefined();
    expect(vllm.requestCount).toBe(1);
    await vi.advanceTimersByTimeAsync(5_000);
    const many = Array.from({ length: 50 }, () => registry.resolveOrRefresh('vllm/new'));
    expect(await Promise.all(many)).toEqual(many.map(() => undefined));
    await registry.resolveOrRefresh('new', 'vllm');
    expect(vllm.requestCount).toBe(2);
  });

  test('waits two seconds at most', async () => {
    const vllm = new Listed('vllm', ['a']);
    const registry = await listed([vllm]);
    await vi.advanceTimersByTimeAsync(5_000);
    vllm.answer = () => new Promise(() => {});
    let answer: unknown = 'waiting';
    const asking = registry.resolveOrRefresh('vllm/new').then((found) => {
      answer = found;
    });
    await vi.advanceTimersByTimeAsync(1_999);
    expect(answer).toBe('waiting');
    await vi.advanceTimersByTimeAsync(1);
    await asking;
    expect(answer).toBeUndefined();
  });

  test('by its bare id waits for first lists that are under way', async () => {
    const slow = new Listed('vllm', []);
    let answer = (_models: ProviderModel[]): void => {};
    slow.answer = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    const registry = registryOf([new Listed('openai', ['a']), slow]);
    await vi.advanceTimersByTimeAsync(0);
    const asking = registry.resolveOrRefresh('late');
    answer([model('late')]);
    expect(await asking).toMatchObject({ provider: { name: 'vllm' }, model: 'late' });
  });

  test('lists nothing when the model is known or the provider is not', async () => {
    const vllm = new Listed('vllm', ['a']);
    const registry = await listed([vllm]);
    await vi.advanceTimersByTimeAsync(5_000);
    await registry.resolveOrRefresh('vllm/a');
    await registry.resolveOrRefresh('nobody/a');
    await registry.resolveOrRefresh('b');
    await registry.resolveOrRefresh('a', 'nobody');
    expect(vllm.requestCount).toBe(1);
  });
});

describe('after the providers were replaced', () => {
  const config = { models: [], modelsMode: 'fallback' } as const;
  const set = async (registry: Registry, providers: readonly Provider[], known?: RegistryOptions['known']) => {
    registry.set(
      providers.map((provider) => ({ provider, config })),
      known,
    );
    await vi.advanceTimersByTimeAsync(0);
  };

  test('new ones are listed, and those that stay are not listed again', async () => {
    const [one, two] = [new Listed('openai', ['a']), new Listed('vllm', ['a', 'b'])];
    const registry = await listed([one]);
    await set(registry, [two, one]);
    expect(selectors(registry)).toEqual(['vllm/a', 'vllm/b', 'openai/a']);
    expect(registry.resolve('a')).toMatchObject({ provider: { name: 'vllm' } });
    expect(registry.providers).toEqual([two, one]);
    expect([one.requestCount, two.requestCount]).toEqual([1, 1]);
  });

  test('those left out are no longer known, and are not listed', async () => {
    const [one, two] = [new Listed('openai', ['a']), new Listed('vllm', ['b'])];
    const registry = await listed([one, two]);
    await set(registry, [one]);
    expect(selectors(registry)).toEqual(['openai/a']);
    expect(registry.knows('vllm')).toBe(false);
    expect(registry.providerByNameOrType('vllm')).toBeUndefined();
    await vi.advanceTimersByTimeAsync(7_200_000);
    expect(two.requestCount).toBe(1);
    expect(one.requestCount).toBe(3);
  });

  test('one of the same name has the list of the old one only when it is given as known', async () => {
    const before = new Listed('vllm', ['a']);
    const registry = await listed([before]);
    await set(registry, [new Listed('vllm', undefined)]);
    expect(selectors(registry)).toEqual([]);
    await set(registry, [new Listed('vllm', undefined)], new Map([['vllm', [model('a')]]]));
    expect(selectors(registry)).toEqual(['vllm/a']);
    expect(registry.status()).toMatchObject([{ state: 'unavailable', remembered: true }]);
  });

  test('lists of removed ones that come late are ignored', async () => {
    const slow = new Listed('vllm', []);
    let answer = (_models: ProviderModel[]): void => {};
    slow.answer = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    const said: string[] = [];
    const registry = registryOf([slow], {
      onListed: (name) => said.push(`${name} listed`),
      onUnavailable: (name) => said.push(`${name} unavailable`),
    });
    await set(registry, []);
    answer([model('late')]);
    await vi.advanceTimersByTimeAsync(0);
    expect(selectors(registry)).toEqual([]);
    expect(said).toEqual([]);
  });

  test('new ones are not listed when the registry was closed', async () => {
    const registry = await listed([new Listed('openai', ['a'])]);
    registry.close();
    const late = new Listed('vllm', ['b']);
    await set(registry, [late]);
    expect(late.requestCount).toBe(0);
    expect(selectors(registry)).toEqual(['openai/a']);
  });
});
