/**
 * Every example of the README and of `docs/`, run as it is. Replaced are the addresses of the gateway and of
 * ClickHouse, and what a reader fills in (`PLACEHOLDERS`). An example that cannot be run says why in the line before it:
 * `<!-- not run: … -->`. Such examples are listed here, so that none is left out by mistake.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, test, vi } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { hasChdb } from '../analytics/embedded.ts';
import { ask, killAll, MASTER_KEY, root, type ServedGateway, serve } from '../e2e/gateway-process.ts';
import { documentedExamples, type Example, examplesIn } from './documented-examples.ts';

const examples = documentedExamples(root);
const run = examples.filter(({ notRun }) => notRun === undefined);
const of = (...languages: string[]) => run.filter(({ language }) => languages.includes(language));

describe('the examples of the documents', () => {
  it('are all of a language that is run or checked here', () => {
    const known = ['json', 'py', 'python', 'sh', 'sql', 'ts', 'yaml'];
    expect(run.filter(({ language }) => !known.includes(language)).map(({ place }) => place)).toEqual([]);
    expect(of('sh').length).toBeGreaterThanOrEqual(15);
    expect(of('sql').length).toBeGreaterThanOrEqual(20);
    expect(of('ts').length).toBeGreaterThanOrEqual(2);
  });

  it('that are not run are these, for these reasons', () => {
    const left = examples.flatMap(({ place, notRun }) =>
      notRun === undefined ? [] : [`${place.split(':')[0]}: ${notRun}`],
    );
    expect(left).toEqual([
      'README.md: does not end, and runs every test',
      'README.md: needs the keys of providers',
      'README.md: needs Claude Code',
      'README.md: does not end',
      'docs/admin.md: would call OpenAI',
      'docs/admin.md: would connect to a server',
      'docs/analytics.md: needs a ClickHouse server',
      'docs/analytics.md: needs an event that a projection cannot apply',
      'docs/analytics.md: needs Docker',
      'docs/clients.md: needs Claude Code',
      'docs/clients.md: the configuration of Codex',
      'docs/contributing.md: takes minutes',
      'docs/guardrail-replay.md: needs recorded requests and a draft',
      'docs/mcp.md: needs a server',
      'docs/mcp.md: needs an MCP server',
      'docs/messages.md: needs Claude Code',
      'docs/operating.md: does not end',
      'docs/operating.md: needs a log in which events are missing',
      'docs/operating.md: writes folders',
      "docs/operating.md: needs LiteLLM's database",
      'docs/operating.md: installs packages',
      'docs/operating.md: needs Docker',
      'docs/operating.md: needs a cluster',
      'docs/plugins.md: writes a folder',
      'docs/plugins.md: needs the folder above',
      'docs/realtime.md: needs a provider with sessions',
    ]);
  });

  it('are found with their place, language and marker', () => {
    const text = 'a\n\n<!-- not run: why -->\n```sh\necho\n```\n\n```ts\nx;\n```\n\n```\ndrawing\n```\n';
    expect(examplesIn('f.md', text)).toEqual([
      { place: 'f.md:4', language: 'sh', text: 'echo\n', notRun: 'why' },
      { place: 'f.md:8', language: 'ts', text: 'x;\n', notRun: undefined },
    ]);
  });

  test.each(of('json').map((one) => [one.place, one] as const))('%s is JSON', (_place, { text }) => {
    expect(() => JSON.parse(text)).not.toThrow();
  });

  test.each(of('yaml').map((one) => [one.place, one] as const))('%s is a configuration', (_place, { text }) => {
    const folder = mkdtempSync(join(tmpdir(), 'chancery-example-'));
    try {
      const path = join(folder, 'chancery.yaml');
      writeFileSync(path, text);
      const config = loadConfig({ flags: { config: path }, env: {}, cwd: folder, providerTypes });
      expect(config).toMatchObject({ ok: true });
    } finally {
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});

describe.skipIf(!hasChdb)('an example that is run beside a gateway', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-examples-'));
  const simulated = createSimulatedProvider({
    models: ['simulated-small', 'my-model', 'llama-3.3-70b', 'llama-3.3-70b-versatile'],
  });
  let gateway: ServedGateway;
  let env: Record<string, string>;
  let placeholders: readonly (readonly [written: string, meant: string])[];

  beforeAll(async () => {
    const url = await simulated.listen();
    const types = {
      demo: 'llamacpp',
      llamacpp: 'llamacpp',
      'llamacpp-gpu': 'llamacpp',
      groq: 'groq',
      openai: 'openai',
    };
    const providers = Object.entries(types).map(
      ([name, type]) => `  ${name}: { type: ${type}, base_url: "${url}", api_key: none }`,
    );
    writeFileSync(join(folder, 'chancery.yaml'), `providers:\n${providers.join('\n')}\n`);
    // The commands are run here, as in a clone of the project, and write what they write here.
    for (const name of ['package.json', 'scripts', 'src', 'infra', 'node_modules'])
      symlinkSync(join(root, name), join(folder, name));
    mkdirSync(join(folder, 'bin'));
    symlinkSync(join(root, 'scripts/chancery.mjs'), join(folder, 'bin/chancery'));
    const dataDir = join(folder, 'data');
    gateway = await serve({
      dataDir,
      cwd: folder,
      env: { ANALYTICS_ENABLED: 'true', ANALYTICS_HTTP_PORT: '0', PLUGINS_ENABLED: 'true' },
    });
    const json = { model: 'demo/simulated-small', messages: [{ role: 'user', content: 'Hello!' }] };
    const answer = await ask(gateway.url, '/v1/chat/completions', { json });
    expect(answer.status, await answer.text()).toBe(200);
    const address = () => /Analytics: ClickHouse at (\S+), database chancery\./.exec(gateway.process.stdout)?.[1];
    await until(async () => address() !== undefined);
    const { analyst }: { analyst: string } = JSON.parse(
      readFileSync(join(dataDir, 'clickhouse-passwords.json'), 'utf8'),
    );
    placeholders = [
      ['http://127.0.0.1:8080', gateway.url],
      ['http://127.0.0.1:8123', address() ?? ''],
      ['analyst:…', `analyst:${analyst}`],
      ['analyst:PASSWORD', `analyst:${analyst}`],
      ['exchange-0193f0c2-…', `exchange-${answer.headers.get('x-exchange-id')}`],
    ];
    env = {
      DATA_DIR: dataDir,
      GATEWAY_MASTER_KEY: MASTER_KEY,
      ANALYST_PASSWORD: analyst,
      URL: gateway.url,
      HOME: folder,
      PATH: [join(folder, 'bin'), process.env['PATH'] ?? ''].join(delimiter),
    };
    await until(async () => (await sql('SELECT count() FROM exchanges')).text === '1\n');
  }, 120_000);
  afterAll(async () => {
    killAll();
    await simulated.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  const until = (isSo: () => Promise<boolean>) =>
    vi.waitFor(async () => expect(await isSo()).toBe(true), { timeout: 60_000, interval: 100 });

  const meant = (text: string) => placeholders.reduce((said, [written, now]) => said.replaceAll(written, now), text);

  /** Queries over HTTP as an analyst. */
  async function sql(query: string): Promise<{ status: number; text: string }> {
    const [, password = ''] = placeholders.find(([written]) => written === 'analyst:…')?.[1].split(':') ?? [];
    const url = placeholders.find(([written]) => written.endsWith(':8123'))?.[1];
    const authorization = `Basic ${Buffer.from(`analyst:${password}`).toString('base64')}`;
    const answer = await fetch(`${url}/?database=chancery`, {
      method: 'POST',
      headers: { authorization },
      body: query,
    });
    return { status: answer.status, text: await answer.text() };
  }

  async function succeeds(command: string, args: readonly string[], cwd: string): Promise<string> {
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const code = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve));
    const [out, err] = await Promise.all([textOf(child.stdout), textOf(child.stderr)]);
    expect({ code: await code, out, err }).toMatchObject({ code: 0 });
    return out;
  }

  /** Stops at the first command that fails; an HTTP error is a failure. */
  const SHELL = 'set -euo pipefail\ncurl() { command curl --fail-with-body --silent --show-error "$@"; }\n';

  test.each(of('sh').map((one) => [one.place, one] as const))('%s', { timeout: 60_000 }, async (_place, { text }) => {
    await succeeds('bash', ['-c', SHELL + meant(text)], folder);
  });

  test.each(of('ts').map((one) => [one.place, one] as const))('%s', { timeout: 60_000 }, async (_place, { text }) => {
    await succeeds(process.execPath, ['--input-type=module-typescript', '-e', meant(text)], root);
  });

  test.each(of('py', 'python').map((one) => [one.place, one] as const))(
    '%s',
    { timeout: 60_000 },
    async (_place, example: Example) => {
      await succeeds('python3', ['-c', meant(example.text)], folder);
    },
  );

  test.each(of('sql').map((one) => [one.place, one] as const))('%s', { timeout: 60_000 }, async (_place, { text }) => {
    const answer = await sql(text);
    expect(answer).toMatchObject({ status: 200 });
  });
});
