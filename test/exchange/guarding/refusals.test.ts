/** Refusals by guardrails in every dialect: their type and status, and endpoints that guardrails cannot serve. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, user, withGateway } from '../../support/with-gateway.ts';

const openai = createSimulatedProvider({ apiKey: 'sk-native' });
const anthropic = createSimulatedProvider({ apiKey: 'sk-anthropic' });
const gateway = withGateway(async () => {
  const urls = { OPENAI_BASE_URL: await openai.listen(), ANTHROPIC_BASE_URL: await anthropic.listen() };
  return {
    simulated: { responses: 'absent' },
    register: (own) => ({
      ...urls,
      LLAMACPP_BASE_URL: own,
      OPENAI_API_KEY: 'sk-native',
      ANTHROPIC_API_KEY: 'sk-anthropic',
    }),
    env: withGuardrails,
  };
});
afterAll(() => Promise.all([openai.close(), anthropic.close()]));

const local = 'llamacpp/simulated-small';
const hosted = 'openai/simulated-small';
const claude = 'anthropic/simulated-small';
const calls = () =>
  [...gateway.simulated.requests, ...openai.requests, ...anthropic.requests].filter(({ method }) => method === 'POST')
    .length;
const send = (userPath: string, path: string, body: object) =>
  gateway.fetch(path, { json: body, headers: { 'x-gateway-user-path': userPath } });
const words = (rules: string, config: object) => ({
  type: 'string_replace',
  config: { rules, roles: ['system', 'user', 'assistant', 'tool'], ...config },
});

beforeAll(async () => {
  const message = 'I cannot talk about that.';
  await saveGuardrail(gateway, { name: 'block', ...words('forbidden => x', { on_match: 'block' }) });
  await saveGuardrail(gateway, { name: 'gone', ...words('gone => x', { on_match: 'block', block_status: 503 }) });
  await saveGuardrail(gateway, { name: 'respond', ...words('weather => x', { on_match: 'respond', message }) });
  await guard(gateway, '/response', [
    { ref: 'block', phase: 'response' },
    { ref: 'gone', phase: 'response', step: 1 },
  ]);
  await guard(gateway, '/stream', [{ ref: 'block', phase: 'stream' }]);
  await guard(gateway, '/prompt', [{ ref: 'respond' }, { ref: 'block', step: 1 }, { ref: 'gone', step: 2 }]);
});

describe('an answer that a guardrail blocks', () => {
  const dialects: readonly [string, string, (content: string) => object][] = [
    ['/v1/chat/completions', local, (content) => ({ messages: user(content) })],
    ['/v1/chat/completions', claude, (content) => ({ messages: user(content) })],
    ['/v1/responses', local, (input) => ({ input })],
    ['/v1/responses', hosted, (input) => ({ input })],
    ['/v1/messages', local, (content) => ({ messages: user(content), max_tokens: 100 })],
    ['/v1/messages', claude, (content) => ({ messages: user(content), max_tokens: 100 })],
    ['/v1/completions', local, (prompt) => ({ prompt })],
  ];

  it.each(dialects)('is 422 guardrail_error, whole and streamed: %s of %s', async (path, model, body) => {
    for (const [userPath, stream] of [
      ['/response', false],
      ['/response', true],
      ['/stream', true],
    ] as const) {
      const answer = await send(userPath, path, { model, stream, ...body('Reply with exactly: forbidden') });
      const what = `${userPath} ${stream} ${await answer.clone().text()}`;
      expect(answer.status, what).toBe(422);
      expect(answer.headers.get('x-should-retry')).toBe('false');
      const { error } = await json(answer.clone());
      expect(error.type, what).toBe('guardrail_error');
      expect(error.provider ?? error.details?.provider).toBeUndefined();
      expect(error.code ?? error.details.error_code).toBe('guardrail_blocked');
      const events = await eventsOfExchange(gateway, exchangeOf(answer));
      expect(events.findLast(({ type }) => type === 'exchange.failed')?.data).toMatchObject({
        ...{ status: 422, type: 'guardrail_error', code: 'guardrail_blocked', reason: 'guardrail' },
      });
    }
  });

  it('keeps the status that the guardrail configures', async () => {
    const answer = await send('/response', '/v1/chat/completions', {
      ...{ model: local, messages: user('Reply with exactly: gone') },
    });
    expect(await errorOf(answer, 503)).toMatchObject({ type: 'guardrail_error', code: 'guardrail_blocked' });
    const prompt = await send('/prompt', '/v1/chat/completions', { model: local, messages: user('gone') });
    expect(await errorOf(prompt, 503)).toMatchObject({ type: 'guardrail_error', code: 'guardrail_blocked' });
  });
});

describe('a request to an endpoint that guardrails cannot read', () => {
  it.each([
    ['/v1/images/generations', { model: local, prompt: 'a house' }],
    ['/v1/audio/speech', { model: local, input: 'a house', voice: 'alloy' }],
    ['/v1/responses/compact', { model: local, input: 'a house' }],
    ['/p/llamacpp/v1/chat/completions', { model: 'simulated-small', messages: user('a house') }],
    ['/v1/batches', { requests: [{ custom_id: 'a', url: '/v1/chat/completions', body: { model: hosted } }] }],
  ])('is 403 with the reason: %s', async (path, body) => {
    const before = calls();
    const answer = await send('/prompt', path, body);
    expect(await errorOf(answer, 403)).toMatchObject({
      ...{ type: 'permission_error', code: 'endpoint_not_guarded' },
      message: expect.stringContaining('guardrails'),
    });
    expect(answer.headers.get('x-should-retry')).toBe('false');
    expect(calls()).toBe(before);
  });
});

describe('a guardrail that responds, at an endpoint whose answers have no text', () => {
  const counts: readonly [string, object][] = [
    ['/v1/embeddings', { model: local, input: 'the weather' }],
    ['/v1/responses/input_tokens', { model: hosted, input: 'the weather' }],
    ['/v1/messages/count_tokens', { model: claude, messages: user('the weather') }],
    ['/v1/messages/count_tokens', { model: local, messages: user('the weather') }],
  ];

  it.each(counts)('refuses the request with 400 and the reason: %s', async (path, body) => {
    const before = calls();
    const answer = await send('/prompt', path, body);
    const text = await answer.clone().text();
    expect(answer.status, text).toBe(400);
    expect(text).toContain('invalid_request_error');
    expect(text).toContain('guardrail_responded');
    expect(text).toContain('I cannot talk about that.');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const of = (type: string) => events.findLast((event) => event.type === type)?.data;
    expect(of('guardrail.applied')).toMatchObject({ phase: 'prompt', verdict: 'respond', decidedBy: 'respond' });
    expect(of('request.refused')).toMatchObject({ status: 400, code: 'guardrail_responded' });
    expect(calls()).toBe(before);
  });

  it.each(counts)('leaves other requests as they are, and blocks those that it blocks: %s', async (path, body) => {
    const other = JSON.parse(JSON.stringify(body).replace('the weather', 'good morning'));
    const answer = await send('/prompt', path, other);
    expect(answer.status, await answer.clone().text()).toBe(200);
    const blocked = JSON.parse(JSON.stringify(body).replace('the weather', 'forbidden'));
    const refused = await send('/prompt', path, blocked);
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain('guardrail_blocked');
  });

  it('an estimated count is that of the same request without guardrails', async () => {
    const body = { model: local, messages: user('How are you this morning?') };
    const [guarded, plain] = [
      await json(await send('/prompt', '/v1/messages/count_tokens', body)),
      await json(await send('/other', '/v1/messages/count_tokens', body)),
    ];
    expect(guarded).toEqual(plain);
    expect(plain.input_tokens).toBeGreaterThan(0);
  });
});
