/** `POST /admin/runtime/reload`: what a running gateway takes from its files. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { fileSchema } from '../../src/config/schema.ts';
import { leavesOf } from '../../src/config/setting.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { eventsIn } from '../e2e/recorded-events.ts';
import type { Answered } from '../support/answered.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { user } from '../support/with-gateway.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'chancery-reload-'));
const provider = createSimulatedProvider({ models: ['m', 'n'], responses: 'absent' });
let gateway: TestGateway;
let upstream = '';

const write = (name: string, content: string) => writeFileSync(join(dataDir, name), content);
const settings = (more: object = {}) => ({
  providers: { main: { type: 'vllm', base_url: upstream, api_key: `$${'{'}file:key}` } },
  ...more,
});

async function reload(more?: object): Promise<Answered> {
  if (more !== undefined) write('chancery.yaml', stringify(settings(more)));
  const answer = await gateway.fetch('/admin/runtime/reload', { method: 'POST' });
  return { status: answer.status, body: (await answer.json()) as Answered };
}

const chat = (more: object = {}) =>
  gateway.fetch('/v1/chat/completions', { json: { model: 'main/m', messages: user('Hello'), ...more } });

let earlier = 0;
const sent = () => provider.requests.filter(({ path }) => path.endsWith('/chat/completions'));
/** Of the requests since the beginning of the test. */
const sentKeys = () =>
  sent()
    .slice(earlier)
    .map(({ headers }) => headers.authorization);

beforeAll(async () => {
  upstream = await provider.listen();
  write('key', 'first-secret-0123456789\n');
  write('chancery.yaml', stringify(settings()));
  gateway = await startTestGateway({ dataDir, simulated: false, env: { GUARDRAILS_ENABLED: 'true' } });
});
beforeEach(() => {
  provider.control.clear();
  earlier = sent().length;
});
afterAll(async () => {
  await gateway.close();
  await provider.close();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

describe('a reload', () => {
  it('without a change changes nothing', async () => {
    expect(await reload()).toEqual({ status: 200, body: { changed: [], needs_restart: [] } });
  });

  it('replaces the key of a provider, and lets an open stream end with the old one', async () => {
    provider.control.next({ holdAfterChunks: 1 });
    const open = await chat({ stream: true });
    const reader = open.body?.getReader();
    await reader?.read();
    write('key', 'second-secret-0123456789\n');
    expect(await reload()).toEqual({
      status: 200,
      body: { changed: [{ setting: 'providers.main.api_key', secret: true }], needs_restart: [] },
    });
    expect((await chat()).status).toBe(200);
    expect(sentKeys()).toEqual(['Bearer first-secret-0123456789', 'Bearer second-secret-0123456789']);
    provider.control.release();
    let text = '';
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      text += new TextDecoder().decode(part.value);
    }
    expect(text).toContain('[DONE]');
  });

  it('is on record with its difference, in the name of the administrator, and without secrets', async () => {
    await reload({ logging: { level: 'warn' } });
    const reloads = (await eventsIn(dataDir)).filter(({ type }) => type === 'configuration.reloaded');
    expect(reloads.at(-1)).toMatchObject({
      context: { actor: 'master' },
      data: { origin: 'request', changed: [{ setting: 'logging.level', after: 'warn' }], needsRestart: [] },
    });
    expect(JSON.stringify(reloads.map(({ data }) => data))).not.toContain('secret-0123456789');
    await reload({});
  });

  it('with a wrong file is refused with its place, and changes nothing', async () => {
    rmSync(join(dataDir, 'key'));
    const refused = await reload({ logging: { level: 'warn' } });
    expect(refused).toMatchObject({
      status: 409,
      body: {
        error: {
          code: 'configuration_invalid',
          message: expect.stringMatching(/line \d+, column \d+ of .*does not exist/),
        },
      },
    });
    expect((await chat()).status).toBe(200);
    write('key', 'second-secret-0123456789\n');
    expect((await reload({})).body.changed).toEqual([]);
  });

  it.each([
    ['virtual models', { virtual_models: [1, 2].map(() => ({ source: 'v', target_model: 'main/m' })) }],
    ['users', { users: [1, 2].map(() => ({ path: '/a', allowed_models: [] })) }],
    ['guardrails', { guardrails: { rules: [{ name: 'g', type: 'none' }] } }],
  ])('with invalid %s beside valid changes changes nothing', async (_what, invalid) => {
    const refused = await reload({ server: { cors_origins: 'https://a.example' }, ...invalid });
    expect(refused).toMatchObject({ status: 409, body: { error: { code: 'configuration_invalid' } } });
    expect((await gateway.fetch('/v1/models', { headers: { origin: 'https://a.example' } })).headers.has('vary')).toBe(
      false,
    );
    expect((await reload({})).body).toEqual({ changed: [], needs_restart: [] });
  });

  it('lists what needs a restart', async () => {
    const { body } = await reload({ server: { max_body_memory: '32M' } });
    expect(body).toEqual({ changed: [], needs_restart: ['server.max_body_memory'] });
    await reload({});
  });

  it('is refused for keys that do not administer the whole gateway', async () => {
    const { value } = (await (
      await gateway.fetch('/admin/auth-keys', { json: { name: 'k', user_path: '/a' } })
    ).json()) as Answered;
    const headers = { authorization: `Bearer ${value}` };
    expect((await gateway.fetch('/admin/runtime/reload', { method: 'POST', headers })).status).toBe(403);
  });

  it('runs once for calls that wait', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => reload()));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  });
});

describe('in the running gateway a reload changes', () => {
  /** By setting: the file, and whether it is in force. */
  const cases: Record<string, [more: object, inForce: () => Promise<boolean>]> = {
    'server.cors_origins': [
      { server: { cors_origins: 'https://a.example' } },
      async () =>
        (await gateway.fetch('/v1/models', { headers: { origin: 'https://a.example' } })).headers.get(
          'access-control-allow-origin',
        ) === 'https://a.example',
    ],
    'server.request_max_entries': [
      { server: { request_max_entries: 100 } },
      async () => (await chat({ messages: Array.from({ length: 101 }, () => user('a')[0]) })).status === 400,
    ],
    'server.request_max_depth': [
      { server: { request_max_depth: 10 } },
      async () => (await chat({ chat_template_kwargs: JSON.parse('['.repeat(12) + ']'.repeat(12)) })).status === 400,
    ],
    'server.request_max_objects': [
      { server: { request_max_objects: 1000 } },
      async () => (await chat({ chat_template_kwargs: Array.from({ length: 1001 }, () => ({})) })).status === 400,
    ],
    'server.request_max_values': [
      { server: { request_max_values: 1000 } },
      async () => (await chat({ chat_template_kwargs: Array.from({ length: 1001 }, () => 1) })).status === 400,
    ],
    'server.max_concurrent_requests': [
      { server: { max_concurrent_requests: 1 } },
      async () => {
        provider.control.next({ holdAfterChunks: 1 });
        const open = await chat({ stream: true });
        const { status } = await chat();
        provider.control.release();
        await open.text();
        return status === 503;
      },
    ],
    'server.stream_max_size': [
      { server: { stream_max_size: '1K' } },
      async () => {
        provider.control.next({ words: 500 });
        return !(await (await chat({ stream: true })).text()).includes('[DONE]');
      },
    ],
    'server.stream_max_duration': [
      { server: { stream_max_duration: '1ms' } },
      async () => {
        provider.control.next({ words: 20, paceMs: 5 });
        return !(await (await chat({ stream: true })).text()).includes('[DONE]');
      },
    ],
    'guardrails.rules': [
      { guardrails: { rules: [{ name: 'words', type: 'string_replace', config: { rules: 'Hello => Reloaded' } }] } },
      async () => {
        await chat();
        return sent().at(-1)?.body.includes('Reloaded') === true;
      },
    ],
    'mcp.servers': [
      { mcp: { servers: [{ name: 'Declared', url: 'http://127.0.0.1:9/mcp', enabled: false }] } },
      async () => (await gateway.fetch('/admin/mcp-servers/declared')).status === 200,
    ],
    users: [
      { users: [{ path: '/team', allowed_models: ['main/n'] }] },
      async () => (await (await gateway.fetch('/admin/users')).text()).includes('/team'),
    ],
    virtual_models: [
      { virtual_models: [{ source: 'alias', target_model: 'main/m' }] },
      async () => (await chat({ model: 'alias' })).status === 200,
    ],
    providers: [
      {
        providers: {
          other: {
            type: 'vllm',
            get base_url() {
              return upstream;
            },
          },
        },
      },
      async () => (await chat({ model: 'other/m' })).status === 200,
    ],
    'resilience.retry.max_retries': [
      { resilience: { retry: { max_retries: 2, initial_backoff: '1ms' } } },
      async () => {
        earlier = sent().length;
        provider.control.always({ status: 503 });
        await chat();
        provider.control.clear();
        return sentKeys().length === 3;
      },
    ],
  };

  it.each(Object.entries(cases))('%s, and back', async (_setting, [more, inForce]) => {
    await reload({});
    expect(await inForce()).toBe(false);
    expect((await reload(more)).body.changed).not.toEqual([]);
    expect(await inForce()).toBe(true);
    expect((await reload({})).body.changed).not.toEqual([]);
    expect(await inForce()).toBe(false);
  });

  /** Settings of all providers are settings of each (`test/config/reload.test.ts`); others show at a stop or in a log. */
  const shownElsewhere =
    /^(http|resilience)\.|^(registry.models_mode|mcp.allowed_origins|logging.level|server.drain_timeout|server.stream_stall_timeout)$/;

  it('each setting that is marked as live, which docs/operating.md lists', () => {
    const live = leavesOf(fileSchema(providerTypes)).filter(({ facts }) => facts.live === true);
    const names = live.map(({ path }) => path.join('.'));
    expect(names.filter((name) => !Object.hasOwn(cases, name) && !shownElsewhere.test(name))).toEqual([]);
    const text = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8');
    const listed = /These change at once.*?Open requests end/s.exec(text)?.[0] ?? '';
    const missing = live.filter(
      ({ path }) =>
        ![path.join('.'), path[0] === 'resilience' ? 'resilience.*' : ''].some((name) =>
          listed.includes(`\`${name}\``),
        ),
    );
    expect(missing.map(({ path }) => path.join('.'))).toEqual([]);
  });
});
