import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { RunningConfiguration } from '../../src/config/reload.ts';
import { fileSchema } from '../../src/config/schema.ts';
import { leavesOf } from '../../src/config/setting.ts';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { types } from './load.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chancery-reload-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, content: string) => writeFileSync(join(folder, name), content);

function running(yaml: string, env: Record<string, string> = {}): RunningConfiguration {
  write('chancery.yaml', yaml);
  const sources = { flags: {}, env, cwd: folder, providerTypes: types };
  const loaded = loadConfig(sources);
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  return new RunningConfiguration(sources, loaded);
}

function read(configuration: RunningConfiguration) {
  const result = configuration.read();
  if (!result.ok) throw new Error(result.problems.join('\n'));
  return result;
}

describe('a configuration that is read again', () => {
  test('without a change has none', () => {
    expect(read(running('providers: { a: { type: openai, api_key: k } }\n')).change).toEqual({
      changed: [],
      needsRestart: [],
    });
  });

  test('has the changes of live settings, with their values as they are written', () => {
    const configuration = running('server: { cors_origins: https://a.example }\nlogging: { level: info }\n');
    write('chancery.yaml', 'server: { cors_origins: [https://b.example], stream_stall_timeout: 5s }\n');
    const { change, config } = read(configuration);
    expect(change).toEqual({
      changed: [
        { setting: 'server.cors_origins', before: 'https://a.example', after: '["https://b.example"]' },
        { setting: 'server.stream_stall_timeout', after: '5s' },
      ],
      needsRestart: [],
    });
    expect(config.server.corsOrigins).toEqual(['https://b.example']);
  });

  test('with another notation of the same value has no change', () => {
    const configuration = running('http: { timeout: 60s }\n');
    write('chancery.yaml', 'http: { timeout: 1m }\n');
    expect(read(configuration).change.changed).toEqual([]);
  });

  test('keeps what needs a restart, and lists it until then', () => {
    const configuration = running('server: { port: 1000 }\n');
    write('chancery.yaml', 'server: { port: 2000, drain_timeout: 1s }\n');
    const first = read(configuration);
    expect(first.change.needsRestart).toEqual(['server.port']);
    expect(first.config.server).toMatchObject({ port: 1000, drainSeconds: 1 });
    first.accept();
    const second = read(configuration);
    expect(second.change).toEqual({ changed: [], needsRestart: ['server.port'] });
  });

  test.each(['chancery.yaml', '.env', 'key', 'ca.pem'])('is refused when %s is a pipe or a device', (name) => {
    write('.env', 'LOG_LEVEL=info\n');
    const yaml = (file: string) => `providers: { a: { type: openai, ${file}, api_key: "\${file:key}" } }\n`;
    const path = join(folder, name);
    write('key', 'k');
    const configuration = running(yaml('base_url: https://a.example'));
    write('chancery.yaml', yaml('base_url: https://a.example, ca_file: ca.pem'));
    for (const make of [() => execFileSync('mkfifo', [path]), () => symlinkSync('/dev/zero', path)]) {
      rmSync(path, { force: true });
      make();
      expect(configuration.read()).toEqual({
        ok: false,
        problems: expect.arrayContaining([expect.stringContaining(`${path} is not a file`)]),
      });
    }
  });

  test('is refused when chancery.yaml is too large', () => {
    const configuration = running('');
    write('chancery.yaml', '#'.repeat(16 * 1024 * 1024 + 1));
    expect(configuration.read()).toMatchObject({ problems: [expect.stringContaining('has more than 16384 KiB')] });
  });

  test('may have /dev/null in place of its files', () => {
    for (const name of ['chancery.yaml', '.env']) symlinkSync('/dev/null', join(folder, name));
    expect(loadConfig({ flags: {}, env: {}, cwd: folder, providerTypes: types })).toMatchObject({ ok: true });
  });

  test('is not in force before it is accepted', () => {
    const configuration = running('logging: { level: info }\n');
    write('chancery.yaml', 'logging: { level: debug }\n');
    const next = read(configuration);
    expect(configuration.config.logLevel).toBe('info');
    next.accept();
    expect(configuration.config.logLevel).toBe('debug');
  });

  test.each([
    ['a wrong value', 'logging: { level: loud }\n', /^logging\.level/],
    ['a wrong value of a setting that needs a restart', 'server: { port: x }\n', /^server\.port/],
    ['invalid YAML', 'logging: [\n', /chancery\.yaml: is not valid YAML/],
    ['a missing file', 'metrics: { key: "${file:nothing}" }\n', /^metrics\.key: the reference at line 1, column 18/],
  ])('with %s has its problem', (_what, yaml, problem) => {
    const configuration = running('logging: { level: info }\n');
    write('chancery.yaml', yaml);
    const result = configuration.read();
    expect(result).toMatchObject({ ok: false, problems: [expect.stringMatching(problem)] });
    expect(configuration.config.logLevel).toBe('info');
  });

  test.each(['chancery.yaml', '.env'])('without %s, or with an empty one, changes nothing', (name) => {
    write('.env', 'LOG_LEVEL=debug\n');
    const configuration = running('providers: { a: { type: openai, api_key: k } }\n');
    for (const make of [() => write(name, '\n'), () => rmSync(join(folder, name))]) {
      make();
      const problem = `${join(folder, name)} is missing or empty`;
      expect(configuration.read()).toEqual({ ok: false, problems: [problem] });
    }
  });

  test('shows of secrets only that they have changed', () => {
    write('key', 'file-secret-1');
    const configuration = running(
      'providers:\n  a: { type: openai, api_key: yaml-secret-1, base_url: "https://u:p@h/" }\n  b: { type: openai, api_key: "${file:key}" }\n  c: { type: openai, api_key: k, models: ["${file:key}"] }\n' +
        'guardrails: { rules: [{ name: g, type: t, config: { token: rule-secret-1 } }] }\n',
    );
    write('key', 'file-secret-2');
    write(
      'chancery.yaml',
      'providers:\n  a: { type: openai, api_key: yaml-secret-2, base_url: "https://u:q@h/" }\n  b: { type: openai, api_key: "${file:key}" }\n  c: { type: openai, api_key: k, models: ["${file:key}"] }\n' +
        'guardrails: { rules: [{ name: g, type: t, config: { token: rule-secret-2 } }] }\n',
    );
    const { changed } = read(configuration).change;
    expect(changed).toEqual([
      { setting: 'guardrails.rules', secret: true },
      { setting: 'providers.a.api_key', secret: true },
      { setting: 'providers.a.base_url', before: expect.any(String), after: expect.any(String) },
      { setting: 'providers.b.api_key', secret: true },
      { setting: 'providers.c.models', secret: true },
    ]);
    expect(JSON.stringify(changed)).not.toMatch(/secret-|u:p|u:q/);
  });

  test.skipIf(missingOpenssl() !== undefined)('has the provider whose file of certificates has another content', () => {
    const [one, other] = [createAuthority(), createAuthority()];
    write('ca.pem', one.ca.cert);
    const configuration = running(
      'providers:\n  a: { type: openai, api_key: k, base_url: "https://h", ca_file: ca.pem }\n  b: { type: openai, api_key: k }\n',
    );
    write('ca.pem', other.ca.cert);
    expect(read(configuration).change.changed).toEqual([{ setting: 'providers.a', secret: true }]);
    one.remove();
    other.remove();
  });

  test('follows .env and the files of variables', () => {
    write('key', 'one');
    write('.env', 'OPENAI_API_KEY_FILE=key\nLOG_LEVEL=info\n');
    const configuration = running('');
    write('key', 'two');
    write('.env', 'OPENAI_API_KEY_FILE=key\nLOG_LEVEL=debug\nGROQ_API_KEY=unknown type here\n');
    const { change, config } = read(configuration);
    expect(change.changed).toEqual([
      { setting: 'logging.level', before: 'info', after: 'debug' },
      { setting: 'providers.openai.api_keys', secret: true },
    ]);
    expect(config.providers[0]?.apiKeys).toEqual(['two']);
  });

  const live = leavesOf(fileSchema(types)).filter(({ facts }) => facts.live === true);
  test.each(live.map(({ path }) => path.join('.')).filter((name) => /^(http|resilience|registry)\./.test(name)))(
    '%s is a setting of each provider',
    (name) => {
      const providers = 'providers: { a: { type: openai, api_key: k } }\n';
      const configuration = running(providers);
      const [first = '', ...rest] = name.split('.').toReversed();
      const value =
        { enabled: 'false', models_mode: 'merge', jitter_factor: '0.5', backoff_factor: '3' }[first] ?? '7s';
      const given = /statuses|max_retries|threshold/.test(first)
        ? '500'.slice(0, first === 'max_retries' ? 1 : 3)
        : value;
      write(
        'chancery.yaml',
        `${providers}${rest.reduce((inner, key) => `${key}: { ${inner} }`, `${first}: ${given}`)}\n`,
      );
      const { change, config } = read(configuration);
      expect(change.changed.map(({ setting }) => setting)).toEqual([name]);
      expect(config.providers).not.toEqual(configuration.config.providers);
    },
  );

  test('lists at most a thousand changes', () => {
    const configuration = running('');
    const many = Array.from({ length: 600 }, (_, n) => `  p${n}: { type: openai, api_key: k }\n`);
    write('chancery.yaml', `providers:\n${many.join('')}`);
    expect(read(configuration).change.changed).toHaveLength(1000);
  });
});
