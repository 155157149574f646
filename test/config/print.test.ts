import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { configJsonSchema, printConfig } from '../../src/config/print.ts';
import { configFrom, load, types, type Written } from './load.ts';

function printed(written: Written): string {
  const loaded = load(written);
  if (!loaded.ok) throw new Error('expected a valid configuration');
  return printConfig(loaded.config, loaded.rawSettings, {
    providers: types,
    guardrailSecrets: { vault: ['token'], plain: [] },
  });
}

describe('chancery config print', () => {
  const written: Written = {
    flags: { port: '9000' },
    env: { LLAMACPP_GPU_BASE_URL: 'http://u:pw@gpu/v1', LOG_DURABILITY: 'strict', RETRY_ON_STATUSES: '' },
    dotenv: 'LOG_LEVEL=debug',
    yaml: 'metrics: { endpoint: /m }\nproviders: { o: { type: ollama, models: [{ id: m, metadata: { n: 1 } }] } }',
  };

  test('its output is a settings file with the same configuration', () => {
    const { cwd: _, ...original } = load(written);
    const text = printed(written).replace('****', 'pw');
    const again = configFrom({ yaml: text });
    if (!original.ok) throw new Error('expected a valid configuration');
    const comparable = (config: typeof again) => ({
      ...config,
      dataDir: '',
      plugins: { ...config.plugins, from: '' },
      log: config.log.durability,
      providers: new Map(config.providers.map(({ source: _, ...provider }) => [provider.name, provider])),
    });
    expect(comparable(again)).toEqual(comparable(original.config));
  });

  test('each value that is not a default has its source', () => {
    const text = printed(written);
    expect(text).toContain('port: "9000" # from --port');
    expect(text).toContain('durability: strict # from LOG_DURABILITY');
    expect(text).toContain('level: debug # from LOG_LEVEL');
    expect(text).toContain('endpoint: /m # from the file');
    expect(text).toMatch(/host: 127\.0\.0\.1$/m);
  });

  test('it begins with the providers in force and the notices', () => {
    const text = printed({ env: { OPENAI_EU_MODELS: 'm', OLLAMA_MODELS: 'm' } });
    expect(text).toMatch(
      /^# providers in force: ollama\n# note: provider openai-eu is left out: .*OPENAI_EU_API_KEY\n/,
    );
  });

  test('secrets of guardrails are masked, and all settings of an unknown type', () => {
    const rules = [
      { name: 'a', type: 'vault', config: { url: 'http://vault', token: 'sk-hidden-1' } },
      { name: 'b', type: 'plain', config: { prompt: 'Be brief.', roles: ['user'] } },
    ];
    const yaml =
      'guardrails: { rules: [{ name: c, type: unknown, config: { any: sk-hidden-2, list: [sk-hidden-3] } }] }';
    const text = printed({ yaml, env: { GUARDRAILS: JSON.stringify(rules) } });
    expect(text).not.toContain('hidden');
    expect(parse(text).guardrails.rules).toEqual([
      { name: 'c', type: 'unknown', config: { any: '****', list: ['****'] } },
      { name: 'a', type: 'vault', config: { url: 'http://vault', token: '****' } },
      rules[1],
    ]);
  });

  test('all settings of plugins are masked', () => {
    const text = printed({ env: { PLUGINS: JSON.stringify([{ path: './p.ts', config: { token: 'hush-hush' } }]) } });
    expect(text).toContain('path: ./p.ts');
    expect(text).not.toContain('hush-hush');
  });

  test('secrets are masked wherever they come from', () => {
    const secret = 'sk-0123456789-abcdefghijkl';
    const text = printed({
      env: {
        GATEWAY_MASTER_KEY: secret,
        OPENAI_API_KEY: secret,
        OPENAI_API_KEY_2: 'short',
        LOG_URL: 'esdb://a:pass@h',
      },
      yaml: `providers:\n  a: { type: openai, api_key: ${secret} }\n  b: { type: openai, api_keys: [${secret}] }\n`,
    });
    expect(text).not.toContain(secret.slice(0, -4));
    expect(text).not.toContain('short');
    expect(text).not.toContain('pass@');
    expect(parse(text).server.master_key).toBe('****ijkl');
    expect(parse(text).providers.openai.api_keys).toEqual(['****ijkl', '****']);
  });
});

describe('chancery config schema', () => {
  const schema = JSON.parse(JSON.stringify(configJsonSchema(types)));

  test('it describes settings with their defaults and bounds', () => {
    expect(schema.properties.server.properties.port).toMatchObject({
      default: 8080,
      anyOf: [{ type: 'integer', minimum: 0, maximum: 65535 }, { type: 'string' }],
    });
    expect(schema.properties.log.properties.durability.anyOf[0]).toEqual({ enum: ['standard', 'strict', 'relaxed'] });
  });

  test('it has the provider types and their options, and no other keys', () => {
    const provider = schema.properties.providers.additionalProperties;
    expect(provider.properties.type.anyOf[0].enum).toEqual(Object.keys(types));
    expect(provider.properties).toHaveProperty('api_version');
    expect([schema.additionalProperties, provider.additionalProperties]).toEqual([false, false]);
  });
});
