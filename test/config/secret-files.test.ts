import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type LoadedConfig, loadConfig } from '../../src/config/load-config.ts';
import { printConfig } from '../../src/config/print.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { fileSchema } from '../../src/config/schema.ts';
import { leavesOf } from '../../src/config/setting.ts';
import { types } from './load.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chancery-secrets-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const SECRET = 'sk-very-secret-0123456789';

function write(name: string, content: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

function load(env: Record<string, string> = {}, yaml?: string): LoadedConfig {
  if (yaml !== undefined) write('chancery.yaml', yaml);
  return loadConfig({ flags: {}, env, cwd: folder, providerTypes: types });
}

function problems(env: Record<string, string> = {}, yaml?: string): string[] {
  const loaded = load(env, yaml);
  return loaded.ok ? [] : loaded.problems.map(describeProblem);
}

function config(env: Record<string, string> = {}, yaml?: string) {
  const loaded = load(env, yaml);
  if (!loaded.ok) throw new Error(loaded.problems.map(describeProblem).join('\n'));
  return loaded;
}

const keyed = (reference: string) => `providers:\n  main:\n    type: openai\n    api_key: "${reference}"\n`;
const keysOf = ({ config: { providers } }: ReturnType<typeof config>) => providers.flatMap(({ apiKeys }) => apiKeys);

describe('a reference to a file in chancery.yaml', () => {
  test.each([
    ['key\n', 'key'],
    ['key\r\n', 'key'],
    ['key', 'key'],
    ['two\nlines\n', 'two\nlines'],
    ['key\n\n', 'key\n'],
    [' spaces ', ' spaces '],
    ['${HOME}', '${HOME}'],
  ])('%j yields %j', (content, expected) => {
    write('key', content);
    const yaml = `${keyed('k')}    models: [{ id: m, metadata: { a: "\${file:key}" } }]\n`;
    expect(config({}, yaml).config.providers[0]?.models).toEqual([{ id: 'm', metadata: { a: expected } }]);
  });

  test.each(['two\nlines\n', 'a\0b'])('%j is no API key, also in the file of a variable', (content) => {
    const path = write('key', content);
    const why = /^providers\.\S+api_key.*: expected a key of characters that HTTP headers can contain, got \*{4}$/;
    const ofVariable = problems({ OPENAI_API_KEY_FILE: path });
    for (const found of [ofVariable, problems({}, keyed('${file:key}'))]) {
      expect(found).toEqual([expect.stringMatching(why)]);
    }
  });

  test('may be absolute, in a text, and beside variables', () => {
    const path = write('key', 'b');
    expect(keysOf(config({ A: 'a' }, keyed(`\${env:A}-\${file:${path}}-\${A}`)))).toEqual(['a-b-a']);
  });

  test('yields text also where other references keep their types', () => {
    write('number', '4096');
    const yaml = `${keyed('k')}    models: [{ id: m, metadata: { a: "\${file:number}", b: "\${env:N}" } }]\n`;
    expect(config({ N: '4096' }, yaml).config.providers[0]?.models).toEqual([
      { id: 'm', metadata: { a: '4096', b: 4096 } },
    ]);
  });

  test.each([
    ['is missing', () => 'nothing', 'does not exist'],
    ['is empty', () => write('empty', ''), 'is empty'],
    ['is only a line feed', () => write('feed', '\n'), 'is empty'],
    ['is too large', () => write('large', 'x'.repeat(64 * 1024 + 1)), 'has more than 64 KiB'],
    ['is not UTF-8', () => write('bytes', Buffer.from([0xff, 0xfe, 0xfd])), 'is not UTF-8 text'],
    ['is a folder', () => mkdirSync(join(folder, 'a', 'b'), { recursive: true }) ?? '', 'is not a file'],
  ])('that %s is a problem with line and column', (_what, make, why) => {
    const name = make();
    const path = name.startsWith('/') ? name : join(folder, name);
    expect(problems({}, keyed(`\${file:${name}}`))).toEqual([
      `providers.main.api_key: the reference at line 4, column 15 of ${join(folder, 'chancery.yaml')} has no value: ${path} ${why}`,
    ]);
  });

  test.each(['${file:}', '${vault:x}', '${env:}', '${env:1A}', '${file}x}'])('%s is an unknown form', (text) => {
    const [problem, ...others] = problems({}, keyed(text));
    if (text === '${file}x}') expect(problem).toBeUndefined();
    else expect(problem).toMatch(/line 4, column 15 of .* names no variable; write \$\{NAME\}/);
    expect(others).toEqual([]);
  });

  test('of a setting that a variable overrides is not read', () => {
    expect(problems({ METRICS_KEY: 'k' }, 'metrics:\n  key: "${file:nothing}"\n')).toEqual([]);
  });

  test('has a content that is never shown, wherever it is', () => {
    write('key', SECRET);
    const yaml =
      `${keyed('${file:key}')}    models: [{ id: m, metadata: { a: "${'${file:key}'}" } }]\n` +
      'logging:\n  level: "${file:key}"\nusers: [{ path: /a, allowed_models: ["x/${file:key}"] }]\n';
    expect(problems({}, yaml).join('\n')).toMatch(/logging\.level: expected one of/);
    expect(problems({}, yaml).join('\n')).not.toContain(SECRET);
    const valid = config({ LOG_LEVEL: 'info' }, yaml);
    const printed = printConfig(valid.config, valid.rawSettings, { providers: types, guardrailSecrets: {} });
    expect(printed).toContain('/a');
    expect(printed).not.toContain(SECRET);
  });
});

describe('a variable that names the file of a secret', () => {
  const secrets = leavesOf(fileSchema(types)).flatMap(({ path, facts }) =>
    facts.secret === true && facts.env !== undefined ? [{ path, variable: facts.env }] : [],
  );

  test('exists for every secret setting', () => {
    expect(secrets.map(({ variable }) => variable)).toContain('GATEWAY_MASTER_KEY');
    for (const { path, variable } of secrets) {
      if (variable === 'CREDENTIALS_KEY') continue;
      const ofHeaders = variable.endsWith('_HEADERS') ? `api-key=${SECRET}` : SECRET;
      const value = variable.endsWith('_URL') ? 'postgres://u:p@h/d' : ofHeaders;
      const file = write('secret', `${value}\n`);
      const { rawSettings } = config({ [`${variable}_FILE`]: file });
      expect([variable, rawSettings.get(path)]).toEqual([variable, value]);
      expect(rawSettings.origin(path)).toEqual({ source: 'environment', variable: `${variable}_FILE` });
    }
  });

  test.each([
    ['OPENAI_API_KEY', 'openai'],
    ['OPENAI_TEAM_API_KEY', 'openai-team'],
    ['OPENAI_API_KEY_2', 'openai'],
  ])('exists for %s', (variable, name) => {
    write('key', `${SECRET}\n`);
    const { providers } = config({ [`${variable}_FILE`]: 'key' }).config;
    expect(providers).toMatchObject([{ name, apiKeys: [SECRET] }]);
  });

  test('may be in .env, and is stronger than chancery.yaml', () => {
    write('key', SECRET);
    write('.env', 'METRICS_KEY_FILE=key\n');
    expect(config({}, 'metrics: { key: weak }\n').config.metrics.key).toBe(SECRET);
  });

  test.each([
    [
      'both are set',
      { METRICS_KEY: 'a', METRICS_KEY_FILE: 'key' },
      'METRICS_KEY_FILE: METRICS_KEY is set as well; set one of the two',
    ],
    ['the file is missing', { METRICS_KEY_FILE: '/nowhere/key' }, 'METRICS_KEY_FILE: /nowhere/key does not exist'],
    [
      'that of a provider is missing',
      { OPENAI_API_KEY_FILE: '/nowhere/key' },
      'OPENAI_API_KEY_FILE: /nowhere/key does not exist',
    ],
  ])('is a problem when %s', (_what, env, expected) => {
    write('key', SECRET);
    expect(problems(env)).toEqual([expected]);
  });

  test('does not exist for settings that are no secrets', () => {
    expect(problems({ PORT_FILE: '/nowhere', OPENAI_BASE_URL_FILE: '/nowhere' })).toEqual([]);
  });

  test('leaves a setting of that name alone', () => {
    write('key', 'x'.repeat(32));
    const { credentials } = config({ CREDENTIALS_KEY_FILE: 'key' }).config;
    expect(credentials).toEqual({ key: undefined, keyFile: join(folder, 'key') });
  });

  test('counts as not set when it is empty', () => {
    expect(config({ METRICS_KEY_FILE: '', METRICS_KEY: 'k' }).config.metrics.key).toBe('k');
  });
});
