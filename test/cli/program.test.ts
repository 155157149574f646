import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parseArguments, UsageError } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/program.ts';
import { chancery } from '../support/command-line.ts';

let cwd: string;
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'chancery-cli-'));
});
afterAll(() => rmSync(cwd, { recursive: true }));

describe('the command line', () => {
  test('serve gets its flags by name', async () => {
    const serve = vi.fn(async () => 3);
    const parts = {
      version: '1',
      env: {},
      cwd,
      providerTypes: async () => ({}),
      guardrailSecrets: async () => ({}),
      serve,
      analytics: async () => 0,
      rebuildAnalytics: async () => '0',
      writeParquet: async () => {},
      setUpAnalyst: async () => [],
      replayGuardrails: async () => ({ problem: 'unused', param: null }),
      masterKey: async () => undefined,
      examine: async () => [],
      announcedPosition: async () => ({ position: 0 }),
    };
    const argv = ['serve', '--port', '9000', '--host=::1', '--log-url', 'memory:', '--log-durability', 'strict'];
    expect(await runCli(argv, parts)).toBe(3);
    expect(serve).toHaveBeenCalledWith({ port: '9000', host: '::1', logUrl: 'memory:', logDurability: 'strict' });
  });

  test.each([
    [['--version'], /^\d+\.\d+\.\d+\n$/],
    [[], /chancery serve .*Run the gateway/],
    [['help'], /chancery log cat <stream>/],
    [['log', '--help'], /^ {2}chancery log tail/],
    [['serve', '--help'], /-p, --port <PORT>\s+port to listen on/],
    [['log', 'cat', '-h'], /^chancery log cat <stream> \[flags\]/],
  ])('%j prints help or the version', async (args, expected) => {
    const { code, stdout } = await chancery(cwd, args);
    expect(stdout).toMatch(expected);
    expect(code).toBe(0);
  });

  test.each([
    [['sevre'], /there is no command "sevre"/],
    [['log'], /log what\?/],
    [['log', 'tial'], /there is no command "log tial"/],
    [['serve', '--prot', '1'], /Unknown option '--prot'/],
    [['serve', 'now'], /unexpected argument "now"/],
    [['serve', '--port'], /--port <value>' argument missing/],
    [['log', 'cat'], /<stream> is missing/],
  ])('%j is a usage error, exit code 2', async (args, expected) => {
    const { code, stdout, stderr } = await chancery(cwd, args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(expected);
  });

  test('a flag may be repeated only where it makes sense', () => {
    const shape = { name: 'x', about: '', flags: { type: { value: 'T', repeatable: true, about: '' } } };
    expect(parseArguments(shape, ['--type', 'a', '--type=b']).lists).toEqual({ type: ['a', 'b'] });
    expect(() => parseArguments({ ...shape, flags: {} }, ['--type', 'a'])).toThrow(UsageError);
  });
});

describe('chancery config', () => {
  test('check reports success, and lists the providers', async () => {
    expect(await chancery(cwd, ['config', 'check'], { LLAMACPP_BASE_URL: 'http://x/v1' })).toEqual({
      code: 0,
      stdout: 'the configuration is valid; providers: llamacpp\n',
      stderr: '',
    });
  });

  test('check reports every problem, and exits with 1', async () => {
    const file = join(cwd, 'bad.yaml');
    writeFileSync(file, 'server: { prot: 1 }\n');
    const { code, stdout, stderr } = await chancery(cwd, ['config', 'check', '--config', 'bad.yaml'], { PORT: 'abc' });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr.trim().split('\n').sort()).toEqual([
      'chancery: server.port (PORT): expected a whole number from 0 to 65535, got "abc"',
      'chancery: server.prot: unknown key "prot"; did you mean "port"?',
    ]);
  });

  test('check reports providers that were left out', async () => {
    const { code, stderr } = await chancery(cwd, ['config', 'check'], { LLAMACPP_API_KEY: 'k' });
    expect([code, stderr]).toEqual([
      0,
      'chancery: provider llamacpp is left out: it has no base URL; set LLAMACPP_BASE_URL\n',
    ]);
  });

  test('print shows the configuration in force', async () => {
    const { code, stdout } = await chancery(cwd, ['config', 'print', '--data-dir', 'd'], {
      GATEWAY_MASTER_KEY: 'secret',
    });
    expect(code).toBe(0);
    expect(stdout).toContain('data_dir: d # from --data-dir');
    expect(stdout).toContain('master_key: "****" # from GATEWAY_MASTER_KEY');
  });

  test('schema is JSON Schema', async () => {
    const { code, stdout } = await chancery(cwd, ['config', 'schema']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ title: 'chancery.yaml', type: 'object' });
  });
});
