import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { configFrom, problemsFrom, providersFrom } from './load.ts';

describe('providers in environment variables', () => {
  test('nothing registers from defaults alone', () => {
    expect(configFrom({}).providers).toEqual([]);
  });

  test('a key registers a type that needs one, at its usual address', () => {
    expect(configFrom({ env: { OPENAI_API_KEY: 'k' } }).providers).toEqual([
      expect.objectContaining({
        name: 'openai',
        type: 'openai',
        baseUrl: 'https://api.openai.com/v1',
        apiKeys: ['k'],
        models: [],
        modelsMode: 'fallback',
        options: {},
        source: 'environment',
      }),
    ]);
  });

  test.each([
    ['its base URL', { OLLAMA_BASE_URL: 'http://gpu:11434/v1/' }, { baseUrl: 'http://gpu:11434/v1' }],
    ['its models', { OLLAMA_MODELS: 'a, b,,a' }, { models: [{ id: 'a' }, { id: 'b' }] }],
    ['its key', { OLLAMA_API_KEY: 'k' }, { apiKeys: ['k'] }],
  ])('a keyless type registers as soon as %s is set', (_, env, expected) => {
    const usual = { name: 'ollama', baseUrl: 'http://localhost:11434/v1', apiKeys: [], models: [] };
    expect(configFrom({ env }).providers).toMatchObject([{ ...usual, ...expected }]);
  });

  test('parameters that a type lacks are refused or ignored by a switch', () => {
    const address = { OLLAMA_BASE_URL: 'http://gpu:11434' };
    const yaml = 'providers: {ollama: {type: ollama, strict_parameters: false}}';
    for (const written of [{ env: { ...address, OLLAMA_STRICT_PARAMETERS: 'no' } }, { env: address, yaml }]) {
      expect(configFrom(written).providers).toMatchObject([{ options: { strictParameters: 'false' } }]);
    }
    expect(configFrom({ env: address }).providers).toMatchObject([{ options: {} }]);
    const [problem] = problemsFrom({ env: { ...address, OLLAMA_STRICT_PARAMETERS: 'sometimes' } });
    expect(JSON.stringify(problem)).toContain('true or false');
  });

  test('an empty variable registers nothing', () => {
    const config = configFrom({ env: { OLLAMA_BASE_URL: '', OPENAI_API_KEY: ' ' } });
    expect(config).toMatchObject({ providers: [], notices: [] });
  });

  test('a type that needs a key is left out without one, and the notice says which variable to set', () => {
    const config = configFrom({ env: { OPENAI_BASE_URL: 'http://x/v1', OPENAI_EU_MODELS: 'gpt' } });
    expect(config.providers).toEqual([]);
    expect(config.notices).toEqual([
      'provider openai is left out: it has no API key; set OPENAI_API_KEY',
      'provider openai-eu is left out: it has no API key; set OPENAI_EU_API_KEY',
    ]);
  });

  test.each(['LLAMACPP_PROXY_URL', 'LLAMACPP_GPU_PROXY_URL'])('%s without its provider is a notice', (variable) => {
    const name = variable === 'LLAMACPP_PROXY_URL' ? 'llamacpp' : 'llamacpp-gpu';
    const { notices } = configFrom({ env: { LLAMACPP_TIMEOUT: '5s', [variable]: 'http://proxy.test:1' } });
    expect(notices).toEqual([`${variable} is ignored: there is no provider ${name}`]);
  });

  test('a type without a usual address is left out without one, and the notice says which variable to set', () => {
    const config = configFrom({ env: { LLAMACPP_API_KEY: 'k', AZURE_EAST_API_KEY: 'k' } });
    expect(config.providers).toEqual([]);
    expect(config.notices).toEqual([
      'provider azure-east is left out: it has no base URL; set AZURE_EAST_BASE_URL',
      'provider llamacpp is left out: it has no base URL; set LLAMACPP_BASE_URL',
    ]);
  });

  test('a name between type and field makes an instance <type>-<name>, lower case, with dashes', () => {
    const providers = providersFrom({
      env: {
        LLAMACPP_BASE_URL: 'http://a/v1',
        LLAMACPP_GPU_BASE_URL: 'http://b/v1',
        LLAMACPP_BIG_BOX_2_BASE_URL: 'http://c/v1',
        LLAMACPP_BIG_BOX_2_API_KEY: 'k',
      },
    });
    expect([...providers.keys()]).toEqual(['llamacpp', 'llamacpp-big-box-2', 'llamacpp-gpu']);
    expect(providers.get('llamacpp-big-box-2')).toMatchObject({ baseUrl: 'http://c/v1', apiKeys: ['k'] });
  });

  test('further keys are numbered from 2 and take turns in the order of their numbers', () => {
    const env = { OPENAI_API_KEY_10: 'k10', OPENAI_API_KEY_2: 'k2', OPENAI_API_KEY: 'k1', OPENAI_API_KEY_3: 'k2' };
    expect(configFrom({ env }).providers).toMatchObject([{ name: 'openai', apiKeys: ['k1', 'k2', 'k10'] }]);
  });

  test('a numbered key alone is a key', () => {
    expect(configFrom({ env: { OPENAI_API_KEY_2: 'k' } }).providers).toMatchObject([
      { name: 'openai', apiKeys: ['k'] },
    ]);
  });

  test('a key numbered 1 is ignored, with a notice', () => {
    const config = configFrom({ env: { OPENAI_API_KEY_1: 'k' } });
    expect(config.providers).toEqual([]);
    expect(config.notices).toEqual(['OPENAI_API_KEY_1 is ignored: further keys are numbered from 2']);
  });

  test('a number between type and field is a name, not a turn', () => {
    expect(configFrom({ env: { OPENAI_2_API_KEY: 'k' } }).providers).toMatchObject([
      { name: 'openai-2', apiKeys: ['k'] },
    ]);
  });

  test('an instance has numbered keys of its own', () => {
    const env = { OPENAI_EU_API_KEY_2: 'b', OPENAI_EU_API_KEY: 'a' };
    expect(configFrom({ env }).providers).toMatchObject([{ name: 'openai-eu', apiKeys: ['a', 'b'] }]);
  });

  test("a type's further options are read, for the type and for its instances", () => {
    const providers = providersFrom({
      env: {
        AZURE_API_KEY: 'k',
        AZURE_BASE_URL: 'https://a.example',
        AZURE_API_VERSION: '2024-10-21',
        AZURE_EU_API_KEY: 'k',
        AZURE_EU_BASE_URL: 'https://b.example',
        AZURE_EU_API_VERSION: '2025-01-01',
      },
    });
    expect(providers.get('azure')?.options).toEqual({ apiVersion: '2024-10-21' });
    expect(providers.get('azure-eu')?.options).toEqual({ apiVersion: '2025-01-01' });
  });

  test('variables of other programs that begin like a type are ignored', () => {
    const env = {
      OPENAI_API_KEY: 'k',
      OPENAI_ORG_ID: 'org',
      OPENAI_PROJECT: 'p',
      OPENAI_API_VERSION: '1',
      OPENAI_KEY_FILE: '/run/key',
      OLLAMA_HOST: '0.0.0.0',
      OPENAIX_API_KEY: 'k',
    };
    const config = configFrom({ env });
    expect(config.providers.map(({ name, options }) => [name, options])).toEqual([['openai', {}]]);
    expect(config.notices).toEqual([]);
  });

  test('the type with the longest matching name owns a variable', () => {
    const env = { BEDROCK_MANTLE_BASE_URL: 'http://a', BEDROCK_EU_BASE_URL: 'http://b' };
    const found = configFrom({ env }).providers.map(({ name, type }) => [name, type]);
    expect(found).toEqual([
      ['bedrock-eu', 'bedrock'],
      ['bedrock-mantle', 'bedrock-mantle'],
    ]);
  });

  test.each(['LLAMACPP_GPU__A_BASE_URL', 'LLAMACPP__BASE_URL', 'LLAMACPP_GPU__BASE_URL', 'LLAMACPP_G-U_BASE_URL'])(
    '%s has no valid name in it and is ignored, with a notice',
    (variable) => {
      const config = configFrom({ env: { [variable]: 'http://x' } });
      expect(config.providers).toEqual([]);
      expect(config.notices).toEqual([expect.stringContaining(`${variable} is ignored`)]);
    },
  );

  test('any valid name comes out as the instance it spells', () => {
    const word = fc.stringMatching(/^[A-Z0-9]{1,6}$/);
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 4 }), (words) => {
        const env = { [`LLAMACPP_${words.join('_')}_BASE_URL`]: 'http://x' };
        const expected = `llamacpp-${words.join('-').toLowerCase()}`;
        expect(configFrom({ env }).providers.map(({ name }) => name)).toEqual([expected]);
      }),
    );
  });

  test('.env registers providers too', () => {
    expect(configFrom({ dotenv: 'OPENAI_API_KEY=k' }).providers).toMatchObject([{ name: 'openai', apiKeys: ['k'] }]);
  });
});

describe('providers in the settings file', () => {
  test('a provider has any name and a type', () => {
    const yaml = `
providers:
  Local.1:
    type: llamacpp
    base_url: http://gpu:8081/v1/
    models_mode: merge
    models:
      - plain
      - id: tuned
        metadata: { context_window: "\${CTX}", modes: [chat], display_name: "\${NAME:-Tuned}" }
`;
    expect(configFrom({ yaml, env: { CTX: '4096' } }).providers).toMatchObject([
      {
        name: 'Local.1',
        type: 'llamacpp',
        baseUrl: 'http://gpu:8081/v1',
        apiKeys: [],
        modelsMode: 'merge',
        models: [
          { id: 'plain' },
          { id: 'tuned', metadata: { context_window: 4096, modes: ['chat'], display_name: 'Tuned' } },
        ],
        source: 'file',
      },
    ]);
  });

  test('a keyless provider with nothing but its type registers, because it was written down', () => {
    expect(configFrom({ yaml: 'providers: { o: { type: ollama } }' }).providers).toMatchObject([
      { name: 'o', baseUrl: 'http://localhost:11434/v1' },
    ]);
  });

  test('one key and further keys are used together', () => {
    const yaml = 'providers: { a: { type: openai, api_key: k1, api_keys: [k2, k1, k3] } }';
    expect(configFrom({ yaml }).providers).toMatchObject([{ apiKeys: ['k1', 'k2', 'k3'] }]);
  });

  test.each([
    ['api_key: "${MY_KEY}"', 'it has no API key; set MY_KEY'],
    ['api_keys: ["${MY_KEY}", ""]', 'it has no API key; set MY_KEY'],
    ['api_key: "${MY_KEY:-}"', 'it has no API key; set providers.a.api_key'],
    ['api_key: ""', 'it has no API key; set providers.a.api_key'],
    ['models: [m]', 'it has no API key; set providers.a.api_key'],
  ])('with %s a provider that needs a key is left out, not an error', (line, reason) => {
    const config = configFrom({ yaml: `providers: { a: { type: openai, ${line} } }` });
    expect(config.providers).toEqual([]);
    expect(config.notices).toEqual([`provider a is left out: ${reason}`]);
  });

  test('an address that refers to an unset variable leaves the provider out, even where there is a usual one', () => {
    const config = configFrom({ yaml: 'providers: { o: { type: ollama, base_url: "${OLLAMA_URL}" } }' });
    expect(config.providers).toEqual([]);
    expect(config.notices).toEqual(['provider o is left out: it has no base URL; set OLLAMA_URL']);
  });

  test('a keyless provider whose key is not set registers without one', () => {
    const yaml = 'providers: { l: { type: llamacpp, base_url: "http://x/v1", api_key: "${K}" } }';
    expect(configFrom({ yaml }).providers).toMatchObject([{ name: 'l', apiKeys: [] }]);
  });

  test('a reference to an unset variable anywhere else in a provider is a problem', () => {
    const yaml = 'providers: { o: { type: ollama, models: ["${M}"] } }';
    expect(problemsFrom({ yaml })).toEqual([
      expect.objectContaining({ path: 'providers.o.models.0', variable: 'M', source: 'file' }),
    ]);
  });

  test("a provider's own resilience overrides the general one, member by member", () => {
    const yaml = `
resilience: { retry: { max_retries: 5, initial_backoff: 2s } }
providers:
  a: { type: ollama, resilience: { retry: { max_retries: 0 }, circuit_breaker: { enabled: false } } }
  b: { type: ollama }
`;
    const config = configFrom({ yaml });
    const [a, b] = config.providers;
    expect(a?.resilience.retry).toMatchObject({ maxRetries: 0, initialBackoffMs: 2000, maxBackoffMs: 30_000 });
    expect(a?.resilience.circuitBreaker).toMatchObject({ enabled: false, failureThreshold: 5 });
    expect(b?.resilience).toEqual({ retry: config.retry, circuitBreaker: config.circuitBreaker });
  });
});

describe('the environment and the settings file together', () => {
  const yaml = `
providers:
  openai: { type: openai, api_key: file, api_keys: [file2], base_url: "http://file/v1", models: [m] }
  mine: { type: openai, api_key: mine }
`;

  test('bare variables win over the provider named after the type, and keep its other members', () => {
    const providers = providersFrom({ yaml, env: { OPENAI_API_KEY: 'env' } });
    expect(providers.get('openai')).toMatchObject({
      apiKeys: ['env'],
      baseUrl: 'http://file/v1',
      models: [{ id: 'm' }],
      source: 'environment',
    });
    expect(providers.get('mine')).toMatchObject({ apiKeys: ['mine'], source: 'file' });
  });

  test('a base URL in the environment keeps the keys of the file', () => {
    expect(providersFrom({ yaml, env: { OPENAI_BASE_URL: 'http://env/v1' } }).get('openai')).toMatchObject({
      apiKeys: ['file', 'file2'],
      baseUrl: 'http://env/v1',
    });
  });

  test('variables with a name win over the provider of that name', () => {
    const named = 'providers: { openai-eu: { type: openai, api_key: file } }';
    expect(configFrom({ yaml: named, env: { OPENAI_EU_API_KEY: 'env' } }).providers).toMatchObject([
      { name: 'openai-eu', apiKeys: ['env'] },
    ]);
  });

  test('a provider in the file that has the name of another type is replaced by that type, with a notice', () => {
    const config = configFrom({
      yaml: 'providers: { openai: { type: llamacpp, base_url: "http://x/v1" } }',
      env: { OPENAI_API_KEY: 'k' },
    });
    expect(config.providers).toMatchObject([{ name: 'openai', type: 'openai', baseUrl: 'https://api.openai.com/v1' }]);
    expect(config.notices).toEqual([expect.stringContaining('give it another name')]);
  });

  test('providers of the file come first, in its order, then those of the environment', () => {
    const env = { OLLAMA_MODELS: 'x', OPENAI_API_KEY: 'k', OPENAI_EU_API_KEY: 'k' };
    const both = 'providers: { z: { type: ollama }, a: { type: ollama } }';
    expect(configFrom({ yaml: both, env }).providers.map(({ name }) => name)).toEqual([
      'z',
      'a',
      'openai',
      'openai-eu',
      'ollama',
    ]);
  });
});
