import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isObject } from '../../src/json/is-object.ts';
import { eventsIn } from '../e2e/recorded-events.ts';
import { startTestGateway } from '../support/gateway.ts';
import { errorOf, eventsUntil, json, modelsListed, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const MODEL = 'llamacpp/simulated-small';
const SECRET_WORD = 'unusual-word-in-the-text';

const gateway = withGateway({
  env: { GUARDRAILS_ENABLED: 'true', RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
});
const admin = administrator(gateway);
const post = (body: object) => gateway.fetch('/admin/guardrails/test', { json: body });
const tested = async (guardrail: string | object, text: string, change: object = {}) => {
  const answer = await post({ guardrail, text, ...change });
  expect(answer.status).toBe(200);
  return json(answer);
};
const judge = (config: object = {}, change: object = {}) => ({
  ...{ name: 'judge', type: 'llm_judge', config: { model: MODEL, ...config } },
  ...change,
});
const verdict = (text: string) => gateway.simulated.control.next({ text });

async function eventsOf(exchange: string) {
  return (await eventsIn(gateway.dataDir)).filter(({ stream }) => stream === `exchange-${exchange}`);
}

beforeAll(async () => {
  await admin.change('PUT', '/admin/model-pricing-overrides', { selector: MODEL, pricing: { per_request: 0.5 } });
});

describe('POST /admin/guardrails/test', () => {
  it('returns what a definition that is not saved makes of a text', async () => {
    const result = await tested({ type: 'pii' }, 'Write to jane@example.com, jane@example.com');
    expect(result).toMatchObject({
      ...{ guardrail: 'draft', type: 'pii', phase: 'prompt', decision: 'allow', changed: true, code: null },
      text: 'Write to <EMAIL_1>, <EMAIL_1>',
      messages: [{ role: 'user', text: 'Write to <EMAIL_1>, <EMAIL_1>' }],
      findings: { EMAIL: 2 },
      placeholders: [{ placeholder: '<EMAIL_1>', value: 'jane@example.com' }],
      ...{ calls: [], fail_mode: 'closed', status: null },
    });
    expect(result.duration_ms).toBeGreaterThan(0);
    expect(await admin.get('/admin/guardrails')).toEqual([]);
  });

  it('evaluates a saved one in each of its phases', async () => {
    const rules = { rules: 'secret => ***', on_match: 'block', message: 'No.', roles: ['user', 'assistant'] };
    await admin.change('PUT', '/admin/guardrails', { name: 'words', type: 'string_replace', config: rules });
    const prompt = await tested('words', 'a secret');
    expect(prompt).toMatchObject({ decision: 'block', code: 'guardrail_blocked', message: 'No.', status: 400 });
    const response = await tested('words', 'a secret', { phase: 'response' });
    expect(response).toMatchObject({ decision: 'block', status: 422, messages: null });
    const stream = await tested('words', 'a secret', { phase: 'stream' });
    expect(stream).toMatchObject({ decision: 'block', status: 422, text: 'a ', phase: 'stream' });
    expect(await tested('words', 'a secret', { role: 'system' })).toMatchObject({ decision: 'allow', changed: false });
  });

  it('returns the messages that a guardrail adds, and its changes of headers', async () => {
    const added = await tested({ type: 'system_prompt', config: { content: 'Be brief.' } }, 'hello');
    expect(added).toMatchObject({
      ...{ text: 'hello', changed: true },
      messages: [
        { role: 'system', text: 'Be brief.' },
        { role: 'user', text: 'hello' },
      ],
    });
    const headers = await tested({ type: 'header_edit', config: { response_set: 'X-Team: blue' } }, 'hello', {
      phase: 'response',
    });
    expect(headers).toMatchObject({ changed: true, headers: [{ response_set: { 'x-team': 'blue' } }] });
  });

  it.each([
    ['an unknown name', { guardrail: 'nothing', text: '' }, 404, 'nothing'],
    ['an unknown type', { guardrail: { type: 'unknown' }, text: '' }, 400, 'type'],
    ['an invalid configuration', { guardrail: { type: 'pii', config: { action: 'x' } }, text: '' }, 400, 'action'],
    ['a phase of other types', { guardrail: { type: 'tag_replace' }, phase: 'stream', text: '' }, 400, 'phase'],
    ['a phase that does not exist', { guardrail: { type: 'pii' }, phase: 'all', text: '' }, 400, 'phase'],
    ['a missing text', { guardrail: { type: 'pii' } }, 400, 'text'],
    ['a text that is too long', { guardrail: { type: 'pii' }, text: 'x'.repeat(100_001) }, 400, 'text'],
    ['neither a name nor a definition', { guardrail: 7, text: '' }, 400, 'guardrail'],
  ])('refuses %s', async (_what, body, status, named) => {
    const { param, message } = await errorOf(await post(body), status);
    expect(`${param} ${message}`).toContain(named);
  });
});

describe('a model call of a guardrail', () => {
  it('is an exchange of its own at the path of the guardrail, with its cost', async () => {
    verdict('{"verdict":"block","reason":"no"}');
    const result = await tested(judge(), SECRET_WORD, { user_path: '/team' });
    expect(result).toMatchObject({ decision: 'block', code: 'llm_judge_block', calls: [{ cost: 0.5 }] });
    expect(result.calls[0].input_tokens).toBeGreaterThan(0);
    const events = await eventsOf(result.calls[0].exchange_id);
    expect(events.map(({ type }) => type)).toEqual([
      ...['request.received', 'model.resolved', 'attempt.started', 'chunk.received'],
      ...['exchange.completed', 'usage.recorded'],
    ]);
    const [received] = events;
    expect(received?.context).toMatchObject({ actor: 'system', userPath: '/team/guardrails/judge' });
    expect(received?.data).toMatchObject({ origin: 'plugin', authMethod: 'no_key', capture: 'full' });
    const sent: unknown = JSON.parse(Buffer.from(received?.body ?? []).toString());
    expect(sent).toMatchObject({ model: MODEL, max_tokens: 2048, temperature: 0 });
    expect(JSON.stringify(sent)).toContain(SECRET_WORD);
    expect(gateway.lastProviderRequest().body).toContain('"model":"simulated-small"');
  });

  it('runs at the path of the guardrail when it has one, and counts in the budgets above it', async () => {
    await admin.change('PUT', '/admin/budgets/%2Fbudgeted/daily', { amount: 0.75 });
    const at = { ...judge(), user_path: '/budgeted' };
    for (const _ of [1, 2]) verdict('{"verdict":"allow"}');
    expect(await tested(at, 'hello', { user_path: '/team' })).toMatchObject({ decision: 'allow' });
    const second = await tested(at, 'hello', { user_path: '/team' });
    expect(second).toMatchObject({ decision: 'failure', message: expect.stringContaining('429 budget_exceeded') });
    const [refused] = await eventsOf(second.calls[0].exchange_id);
    expect(refused?.context.userPath).toBe('/budgeted/guardrails/judge');
  });

  it('may use a model that the clients at its path may not', async () => {
    await admin.change('PUT', '/admin/users', { user_path: '/narrow', allowed_models: ['llamacpp/other'] });
    const asked = { model: MODEL, messages: [{ role: 'user', content: 'hello' }] };
    const client = await gateway.post('/v1/chat/completions', asked, { headers: { 'x-gateway-user-path': '/narrow' } });
    expect(await errorOf(client, 400)).toMatchObject({ code: 'model_access_denied' });
    verdict('{"verdict":"allow"}');
    expect(await tested(judge(), 'hello', { user_path: '/narrow' })).toMatchObject({ decision: 'allow' });
  });

  it('never runs guardrails, and follows the other features of the workflow at its path', async () => {
    await admin.change('PUT', '/admin/guardrails', judge());
    await admin.change('POST', '/admin/workflows', {
      ...{ scope_user_path: '/guarded', name: 'guarded' },
      workflow_payload: {
        features: { cache: true, audit: false, usage: true, guardrails: true },
        steps: [{ ref: 'judge', phase: 'prompt' }],
      },
    });
    verdict('{"verdict":"allow"}');
    const before = gateway.simulated.requests.length;
    const result = await tested('judge', SECRET_WORD, { user_path: '/guarded' });
    expect(result).toMatchObject({ decision: 'allow', calls: [{ cost: 0.5 }] });
    expect(gateway.simulated.requests.length).toBe(before + 1);
    const events = await eventsOf(result.calls[0].exchange_id);
    expect(events[0]?.data).toMatchObject({ origin: 'plugin', capture: 'metadata', workflow: { off: ['audit'] } });
    expect(events.map(({ body }) => Buffer.from(body ?? []).toString()).join('')).not.toContain(SECRET_WORD);
  });

  it('is routed by virtual models, and fails over', async () => {
    await admin.change('PUT', '/admin/virtual-models', {
      ...{ source: 'judges', strategy: 'failover', failover: true, user_paths: ['/other'] },
      targets: [{ model: 'llamacpp/simulated-large' }, { model: MODEL }],
    });
    gateway.simulated.control.next({ status: 503 });
    verdict('{"verdict":"allow"}');
    const result = await tested(judge({ model: 'judges' }), 'hello');
    expect(result).toMatchObject({ decision: 'allow' });
    const types = (await eventsOf(result.calls[0].exchange_id)).map(({ type }) => type);
    expect(types.filter((type) => type === 'attempt.started')).toHaveLength(2);
  });

  it('ends with the time limit of its guardrail', async () => {
    gateway.simulated.control.next({ hang: true });
    const result = await tested(judge({}, { timeout_ms: 100 }), 'hello');
    expect(result).toMatchObject({
      ...{ decision: 'failure', message: 'no decision within 100 ms', calls: [{ cost: null }] },
    });
    const stream = `exchange-${result.calls[0].exchange_id}`;
    await eventsUntil(gateway, `stream=${stream}`, ({ type }) => type === 'client.disconnected');
  });

  it('fails the guardrail when the model fails, without repeating what the provider says', async () => {
    gateway.simulated.control.next({ status: 400, message: `about ${SECRET_WORD}` });
    const result = await tested(judge({}, { fail_mode: 'open' }), SECRET_WORD);
    expect(result).toMatchObject({ decision: 'failure', fail_mode: 'open', calls: [{ cost: null }] });
    expect(result.message).toContain("the call of the model 'llamacpp/simulated-small' failed: 400");
    expect(result.message).not.toContain(SECRET_WORD);
  });
});

describe('a Presidio analyzer', () => {
  /** Finds the word Jane. */
  const analyzer = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const given: unknown = JSON.parse(Buffer.concat(pieces).toString());
      const text = isObject(given) ? String(given['text']) : '';
      const found = [...text.matchAll(/Jane/g)].map(({ index }) => ({
        ...{ entity_type: 'PERSON', start: index, end: index + 4, score: 0.9 },
      }));
      response.writeHead(request.url === '/base/analyze' ? 200 : 404).end(JSON.stringify(found));
    });
  });
  let url = '';
  beforeAll(async () => {
    analyzer.listen(0, '127.0.0.1');
    await once(analyzer, 'listening');
    url = `http://127.0.0.1:${(analyzer.address() as AddressInfo).port}/base`;
  });
  afterAll(() => {
    analyzer.close();
    analyzer.closeAllConnections();
  });
  const open = withGateway({ env: { PLUGINS_ENABLED: 'true', ALLOW_PRIVATE_PROVIDERS: 'true' } });
  const presidio = (analyzer_url: string) => ({ type: 'presidio', config: { analyzer_url } });

  it('is called over HTTP', async () => {
    const body = { guardrail: presidio(url), text: 'Ask Jane' };
    expect(await json(await open.post('/admin/guardrails/test', body))).toMatchObject({
      ...{ decision: 'allow', text: 'Ask <PERSON_1>', findings: { PERSON: 1 } },
    });
  });

  it('is not called at a local address, unless that is allowed', async () => {
    expect(await tested(presidio(url), 'Ask Jane')).toMatchObject({
      ...{ decision: 'failure', message: expect.stringContaining('its address is loopback'), text: 'Ask Jane' },
    });
  });

  it('has an address without credentials', async () => {
    const { message } = await errorOf(
      await post({ guardrail: presidio('http://user:hidden@presidio:3000'), text: '' }),
      400,
    );
    expect(message).toContain('no user, password');
    expect(message).not.toContain('hidden');
  });
});

describe('a stop of the gateway', () => {
  it('ends the calls of models and of servers', async () => {
    const silent = createServer((request) => void request.resume());
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const env = { PLUGINS_ENABLED: 'true', ALLOW_PRIVATE_PROVIDERS: 'true', DRAIN_TIMEOUT: '0s' };
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-guardrail-stop-'));
    const stopped = await startTestGateway({ env, dataDir });
    try {
      await modelsListed(stopped);
      const start = (guardrail: object) =>
        stopped.fetch('/admin/guardrails/test', { json: { guardrail, text: 'hello' } });
      stopped.simulated.control.next({ hang: true });
      const called = [stopped.simulated.nextRequest(), once(silent, 'request')];
      const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
      // The stop closes the connections of administrators.
      const answers = Promise.allSettled([start(judge()), start({ type: 'presidio', config: { analyzer_url: url } })]);
      await Promise.all(called);
      await stopped.close();
      await answers;
      const ends = (await eventsIn(dataDir)).filter(({ type }) => /^(exchange|client)\./.test(type));
      expect(ends).toMatchObject([{ type: 'exchange.failed', data: { reason: 'gateway_stopped' } }]);
    } finally {
      silent.close();
      silent.closeAllConnections();
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});

describe('while plugins are off', () => {
  const off = withGateway();
  it('is 503 feature_unavailable', async () => {
    const answer = await off.post('/admin/guardrails/test', { guardrail: { type: 'pii' }, text: '' });
    expect(await errorOf(answer, 503)).toMatchObject({ code: 'feature_unavailable' });
  });
});
