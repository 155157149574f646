/** Plugins as their users see them: through the routes of a gateway that loaded them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventsIn } from '../e2e/recorded-events.ts';
import { pluginFolder, source } from '../plugins/plugin-files.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { guard, saveGuardrail } from '../support/guarded.ts';
import { errorOf, exchangeOf, json, user } from '../support/with-gateway.ts';

const config = `z.object({
  word: z.string().min(2).meta({ title: 'Word' }),
  token: z.string().default('').meta({ secret: true }),
  action: z.enum(['block', 'warn', 'respond']).default('block'),
})`;

const wordGuard = source(
  `prompt(texts, { config }) {
     if (!texts.some(({ text }) => text.includes(config.word))) return;
     return { decision: config.action, code: 'word_found', message: 'A word.', respond: 'Not that.', findings: { word: 1 } };
   },
   response: (texts) => ({ texts: Object.fromEntries(texts.map(({ text }, index) => [index, text + ' [checked]'])) }),
   stream: (texts) => ({ texts: Object.fromEntries(texts.map(({ text }, index) => [index, text + ' [streamed]'])) }),`,
  { name: 'word_guard', facts: `label: 'Words', version: '1.0.0', mutates: true, config: ${config},` },
);

const failing = source(
  `async prompt(texts, { config, models }) {
     const has = (word) => texts.some(({ text }) => text.includes(word));
     if (has('loop')) for (;;);
     if (has('exit')) process.exit(1);
     if (has('throw')) throw new Error('a secret text');
     if (has('wrong')) return { decision: 'maybe' };
     if (has('change')) return { texts: { 0: 'changed' } };
     if (has('judge')) {
       const { text } = await models.chat({ model: 'simulated-small', messages: [{ role: 'user', content: 'is this fine' }], maxTokens: 20 });
       return { decision: 'warn', code: 'judged', findings: { length: text.length } };
     }
   }`,
  { name: 'failing' },
);

const selecting = source(
  `prompt: (texts) => ({
     texts: Object.fromEntries(texts.flatMap(({ kind }, index) => (kind === 'other' ? [[index, 'other-model']] : []))),
   })`,
  { name: 'selecting', facts: 'mutates: true,' },
);

/** Returns more than a verdict may have. */
const boundless = source(
  `prompt(texts) {
     const has = (word) => texts.some(({ text }) => text.includes(word));
     if (has('findings')) return { findings: Object.fromEntries(Array.from({ length: 65 }, (_, n) => ['kind ' + n, 1])) };
     if (has('texts')) return { texts: Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [n, 'x'])) };
   }`,
  { name: 'boundless', facts: 'mutates: true,' },
);

const files = {
  'boundless.ts': boundless,
  'selecting.ts': selecting,
  'word-guard.ts': wordGuard,
  'failing.ts': failing,
  'broken.ts': 'export default {',
};
const { folder, remove } = pluginFolder(files);
afterAll(remove);

const plugins = (...paths: string[]) => JSON.stringify(paths.map((path) => ({ path: join(folder, path) })));
const env = {
  GUARDRAILS_ENABLED: 'true',
  PLUGINS: plugins('word-guard.ts', 'failing.ts', 'broken.ts', 'selecting.ts', 'boundless.ts'),
};

let gateway: TestGateway;
const dataDir = mkdtempSync(join(tmpdir(), 'chancery-plugins-data-'));

beforeAll(async () => {
  gateway = await startTestGateway({ env, dataDir });
  await saveGuardrail(gateway, { name: 'words', type: 'word_guard', config: { word: 'falcon', token: 'hush' } });
  await saveGuardrail(gateway, { name: 'warns', type: 'word_guard', config: { word: 'falcon', action: 'warn' } });
  await saveGuardrail(gateway, { name: 'fails', type: 'failing', timeout_ms: 300 });
  await saveGuardrail(gateway, { name: 'fails-open', type: 'failing', timeout_ms: 300, fail_mode: 'open' });
  await saveGuardrail(gateway, { name: 'selects', type: 'selecting' });
  await guard(gateway, '/selects', [{ ref: 'selects' }]);
  await guard(gateway, '/words', [
    { ref: 'words' },
    { ref: 'words', phase: 'response' },
    { ref: 'words', phase: 'stream' },
  ]);
  await saveGuardrail(gateway, { name: 'boundless', type: 'boundless' });
  await guard(gateway, '/boundless', [{ ref: 'boundless' }]);
  await guard(gateway, '/warns', [{ ref: 'warns' }]);
  await guard(gateway, '/fails', [{ ref: 'fails' }]);
  await guard(gateway, '/open', [{ ref: 'fails-open' }]);
});

afterAll(async () => {
  await gateway.close();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

function chat(userPath: string, text: string, stream = false, at = gateway): Promise<Response> {
  return at.fetch('/v1/chat/completions', {
    json: { model: 'simulated-small', messages: user(text), stream },
    headers: { 'x-gateway-user-path': userPath },
  });
}

async function rowOf(name: string, at = gateway) {
  const rows: { name: string }[] = await json(await at.fetch('/admin/plugins'));
  return rows.find((row) => row.name === name);
}

/** The gateway must not start with these settings. */
async function refusalToStart(options: TestGatewayOptions): Promise<string> {
  try {
    const started = await startTestGateway(options);
    await started.close();
    return 'it started';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

describe('GET /admin/plugins', () => {
  it('lists a loaded plugin with its manifest and its health', async () => {
    expect(await rowOf('word_guard')).toMatchObject({
      ...{ name: 'word_guard', label: 'Words', version: '1.0.0', kinds: ['prompt', 'response', 'stream'] },
      ...{ mutates: true, guardrail: true, source: join(folder, 'word-guard.ts'), health: 'ok', error: '' },
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      fields: [
        { key: 'word', label: 'Word', input: 'text', required: true, scope: '' },
        { key: 'token', label: 'token', input: 'secret', required: false },
        { key: 'action', input: 'select', options: [{ value: 'block' }, { value: 'warn' }, { value: 'respond' }] },
      ],
      route_fields: [],
      manifest: {
        ...{ name: 'word_guard', label: 'Words', version: '1.0.0', hooks: ['prompt', 'response', 'stream'] },
        ...{ mutates: true, guardrail: true },
      },
    });
  });

  it('lists a plugin that could not be loaded with its error', async () => {
    expect(await rowOf('broken')).toMatchObject({ health: 'failed', error: expect.stringContaining('broken.ts') });
  });
});

describe('a guardrail of a plugin', () => {
  it('is a type like any other', async () => {
    const types = await json(await gateway.fetch('/admin/guardrails/types'));
    expect(types).toContainEqual(
      expect.objectContaining({ type: 'word_guard', source: join(folder, 'word-guard.ts'), mutates: true }),
    );
    const rows: { name: string }[] = await json(await gateway.fetch('/admin/guardrails'));
    const row = rows.find(({ name }) => name === 'words');
    expect(row).toMatchObject({ config: { word: 'falcon', token: '********' } });
    expect(JSON.stringify(row)).not.toContain('hush');
  });

  it.each([
    ['a missing setting', {}, 'config.word'],
    ['a setting of the wrong type', { word: 5 }, 'config.word'],
    ['a setting that is too short', { word: 'x' }, 'config.word'],
    ['an unknown setting', { word: 'xx', other: 1 }, 'config'],
    ['an unknown choice', { word: 'xx', action: 'explode' }, 'config.action'],
  ])('is refused with %s', async (_name, given, param) => {
    const answer = await gateway.fetch('/admin/guardrails', {
      method: 'PUT',
      json: { name: 'x', type: 'word_guard', config: given },
    });
    expect((await errorOf(answer, 400)).param).toBe(param);
  });

  it('blocks requests and lets others pass', async () => {
    expect(await errorOf(await chat('/words', 'about falcon'), 400)).toMatchObject({
      ...{ code: 'word_found', message: 'A word.' },
    });
    expect((await chat('/words', 'about something else')).status).toBe(200);
    const warned = await chat('/warns', 'about falcon');
    expect([warned.status, warned.headers.get('x-chancery-guardrail')]).toEqual([200, 'warn; code=word_found']);
  });

  it('cannot change the model, roles or other settings', async () => {
    const before = gateway.simulated.requests.length;
    const body = { model: 'simulated-small', messages: user('select') };
    const headers = { 'x-gateway-user-path': '/selects' };
    const answer = await gateway.fetch('/v1/chat/completions', { json: body, headers });
    expect(await errorOf(answer, 500)).toMatchObject({ code: 'plugin_failure' });
    expect(gateway.simulated.requests.slice(before).filter(({ method }) => method === 'POST')).toEqual([]);
  });

  it('changes answers and collected streams', async () => {
    const whole = await json(await chat('/words', 'hi'));
    expect(whole.choices[0].message.content).toMatch(/ \[checked\]$/);
    expect(await (await chat('/words', 'hi', true)).text()).toContain('[streamed]');
  });

  it.each([
    ['more texts than there are', 'texts'],
    ['more kinds of findings than are recorded', 'findings'],
  ])('cannot return %s', async (_name, word) => {
    const error = await errorOf(await chat('/boundless', word), 500);
    expect(error).toMatchObject({ code: 'plugin_failure' });
  });

  it.each([
    ['throws', 'throw'],
    ['returns nonsense', 'wrong'],
    ['changes texts without having declared it', 'change'],
    ['hangs', 'loop'],
    ['exits', 'exit'],
  ])('that %s fails closed with plugin_failure, or is skipped', async (_name, word) => {
    await expect.poll(async () => (await rowOf('failing')) ?? {}, { timeout: 10_000 }).toMatchObject({ health: 'ok' });
    const error = await errorOf(await chat('/fails', word), 500);
    expect(error).toMatchObject({ code: 'plugin_failure', type: 'internal_error' });
    expect(error.message).not.toContain('secret text');
    const others = await chat('/words', 'hi');
    expect(others.status).toBe(200);
    expect((await chat('/open', word)).status).toBe(200);
  });

  it('calls models as exchanges at its own path', async () => {
    await expect.poll(async () => (await rowOf('failing')) ?? {}, { timeout: 10_000 }).toMatchObject({ health: 'ok' });
    await expect.poll(async () => (await chat('/fails', 'fine')).status, { timeout: 10_000 }).toBe(200);
    const answer = await chat('/fails', 'judge');
    expect(answer.headers.get('x-chancery-guardrail')).toBe('warn; code=judged');
    const received = (await eventsIn(dataDir)).filter(({ type }) => type === 'request.received');
    const calls = received.filter(({ context }) => context.userPath === '/fails/guardrails/fails');
    expect(calls.map(({ data }) => data)).toMatchObject([{ origin: 'plugin' }]);
    expect(calls.map(({ context }) => context.causationId)).toEqual([exchangeOf(answer)]);
  });

  it('that fails leaves no text of the request in the record', async () => {
    const applied = (await eventsIn(dataDir)).filter(({ type }) => type === 'guardrail.applied');
    expect(JSON.stringify(applied.map(({ data }) => data))).toContain("the hook 'prompt' threw Error");
    expect(JSON.stringify(applied.map(({ data }) => data))).not.toContain('a secret text');
  });
});

describe('plugin.loaded', () => {
  it('is recorded again only for changed code, and changes the hash of the chain', async () => {
    const changing = pluginFolder({ 'p.ts': source('prompt() {}', { name: 'changing' }) });
    const data = mkdtempSync(join(tmpdir(), 'chancery-plugins-again-'));
    const options = { dataDir: data, env: { GUARDRAILS_ENABLED: 'true', PLUGINS_DIR: changing.folder } };
    const loads = async () =>
      (await eventsIn(data)).filter(({ stream }) => stream === 'plugin-changing').map((event) => event.data);
    const run = async (prepare = async (_at: TestGateway) => {}) => {
      const at = await startTestGateway(options);
      await prepare(at);
      const rows: { chain_hashes?: object }[] = await json(await at.fetch('/admin/workflows'));
      await at.close();
      return rows.find((row) => row.chain_hashes !== undefined && Object.keys(row.chain_hashes).length > 0)
        ?.chain_hashes;
    };
    const first = await run(async (at) => {
      await saveGuardrail(at, { name: 'it', type: 'changing' });
      await guard(at, '/a', [{ ref: 'it' }]);
    });
    expect(await run()).toEqual(first);
    expect(await loads()).toHaveLength(1);
    writeFileSync(join(changing.folder, 'p.ts'), source('prompt() { return {}; }', { name: 'changing' }));
    expect(await run()).not.toEqual(first);
    const recorded = await loads();
    expect(recorded).toHaveLength(2);
    expect(recorded[1]).toMatchObject({ name: 'changing', hooks: ['prompt'], mutates: false });
    changing.remove();
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  });
});

describe('the start of the gateway', () => {
  it('fails with a required plugin that cannot be loaded, and names path and setting', async () => {
    const entry = { path: join(folder, 'missing.ts'), required: true };
    const message = await refusalToStart({ env: { ...env, PLUGINS: JSON.stringify([entry]) } });
    expect(message).toContain(join(folder, 'missing.ts'));
    expect(message).toContain('plugins.load.0 (PLUGINS)');
  });

  it('fails with a search path that does not exist', async () => {
    const message = await refusalToStart({ env: { PLUGINS_ENABLED: 'true', PLUGINS_SEARCH_PATHS: '/no/such/folder' } });
    expect(message).toMatch(/PLUGINS_SEARCH_PATHS.*\/no\/such\/folder/);
  });

  it.each([
    ['both a path and a package', { path: 'a', package: 'b' }],
    ['neither a path nor a package', { required: true }],
  ])('fails with %s', async (_name, entry) => {
    const message = await refusalToStart({ env: { ...env, PLUGINS: JSON.stringify([entry]) } });
    expect(message).toContain('expected either path or package');
  });

  it('lists two plugins of one name as one that is loaded and one that is not', async () => {
    const entries = [{ path: join(folder, 'word-guard.ts') }, { path: join(folder, 'word-guard.ts') }];
    const at = await startTestGateway({ env: { ...env, PLUGINS: JSON.stringify(entries) } });
    const rows: { name: string; error: string }[] = await json(await at.fetch('/admin/plugins'));
    await at.close();
    expect(rows.filter(({ name }) => name === 'word_guard').map(({ error }) => error)).toEqual([
      '',
      "its name 'word_guard' is taken; set another with 'name'",
    ]);
  });

  it('goes on with a declared guardrail whose plugin failed, and refuses its requests', async () => {
    const at = await startTestGateway({
      env: {
        ...{ GUARDRAILS_ENABLED: 'true', PLUGINS: plugins('broken.ts') },
        GUARDRAILS: JSON.stringify([{ name: 'lost', type: 'broken', config: {} }]),
      },
    });
    const error = await errorOf(await chat('/x', 'hi', false, at), 500);
    await at.close();
    expect(error).toMatchObject({ code: 'plugin_failure', message: expect.stringContaining('broken') });
  });
});

describe('GET /metrics', () => {
  it('counts calls, failures and restarts', async () => {
    const text = await (await gateway.fetch('/metrics')).text();
    expect(text).toMatch(/^plugin_word_guard_calls_total [1-9]\d*$/m);
    expect(text).toMatch(/^plugin_failing_failures_total [1-9]\d*$/m);
    expect(text).toMatch(/^plugin_failing_restarts_total [1-9]\d*$/m);
  });
});

describe('the configuration of a plugin', () => {
  const settings = (config: object) => JSON.stringify([{ path: join(folder, 'word-guard.ts'), config }]);

  it('applies to a guardrail that was saved without a setting, also after it has changed', async () => {
    const own = mkdtempSync(join(tmpdir(), 'chancery-plugins-config-'));
    const envWith = (config: object) => ({ GUARDRAILS_ENABLED: 'true', PLUGINS: settings(config) });
    const hashOf = async (at: TestGateway) => {
      const rows = await json(await at.fetch('/admin/workflows'));
      return rows.find((row: { scope?: { scope_user_path?: string }; name: string }) => row.name === '/team')
        .chain_hashes.prompt;
    };
    let hash: string;
    const first = await startTestGateway({ env: envWith({ word: 'falcon', action: 'warn' }), dataDir: own });
    try {
      await saveGuardrail(first, { name: 'plain', type: 'word_guard', config: {} });
      await saveGuardrail(first, { name: 'other', type: 'word_guard', config: { word: 'eagle' } });
      await guard(first, '/team', [{ ref: 'plain' }, { ref: 'other', step: 1 }]);
      const rows = await json(await first.fetch('/admin/guardrails'));
      expect(rows.map(({ config }: { config: object }) => config)).toEqual([{ word: 'eagle' }, {}]);
      expect((await chat('/team', 'a falcon', false, first)).headers.get('x-chancery-guardrail')).toContain(
        'word_found',
      );
      hash = await hashOf(first);
    } finally {
      await first.close();
    }
    const second = await startTestGateway({ env: envWith({ word: 'hawk', action: 'block' }), dataDir: own });
    try {
      expect((await chat('/team', 'a falcon', false, second)).status).toBe(200);
      expect((await chat('/team', 'a hawk', false, second)).status).toBe(400);
      expect((await chat('/team', 'an eagle', false, second)).status).toBe(400);
      expect(await hashOf(second)).not.toBe(hash);
    } finally {
      await second.close();
      rmSync(own, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});
