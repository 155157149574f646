/** What clients get when guardrails block, answer, warn or fail, and what is recorded. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import {
  dataOf,
  errorOf,
  eventsOfExchange,
  exchangeOf,
  json,
  type LoggedEvent,
  user,
  withGateway,
} from '../../support/with-gateway.ts';

const native = createSimulatedProvider({ apiKey: 'sk-native' });
const gateway = withGateway(async () => {
  const url = await native.listen();
  return {
    simulated: { responses: 'absent' },
    register: (own) => ({ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-native' }),
    env: withGuardrails,
  };
});
afterEach(() => native.control.clear());
afterAll(() => native.close());

const model = 'llamacpp/simulated-small';
const replaces = (rules: string, config: object = {}) => ({
  type: 'string_replace',
  config: { rules, roles: ['system', 'user', 'assistant', 'tool'], ...config },
});

beforeAll(async () => {
  await saveGuardrail(gateway, { name: 'block', ...replaces('forbidden => x', { on_match: 'block' }) });
  await saveGuardrail(gateway, { name: 'teapot', ...replaces('tea => x', { on_match: 'block', block_status: 418 }) });
  await saveGuardrail(gateway, {
    ...{ name: 'respond', ...replaces('weather => x', { on_match: 'respond', message: 'I cannot talk about that.' }) },
  });
  await saveGuardrail(gateway, { name: 'warn', ...replaces('odd => x', { on_match: 'warn' }) });
  await saveGuardrail(gateway, { name: 'polite', ...replaces('rude => kind') });
  await saveGuardrail(gateway, {
    ...{
      name: 'headers',
      type: 'header_edit',
      config: { response_set: 'x-checked: yes', response_remove: 'x-unused' },
    },
  });
  await saveGuardrail(gateway, { name: 'judge', type: 'llm_judge', config: { model: 'llamacpp/unknown-model' } });
  await saveGuardrail(gateway, {
    ...{ name: 'lenient', type: 'llm_judge', config: { model: 'llamacpp/unknown-model' }, fail_mode: 'open' },
  });
  await guard(gateway, '/prompt', [{ ref: 'block' }, { ref: 'teapot', step: 1 }, { ref: 'respond', step: 2 }]);
  await guard(gateway, '/response', [
    ...[
      { ref: 'block', phase: 'response' as const },
      { ref: 'respond', phase: 'response' as const, step: 1 },
      { ref: 'polite', phase: 'response' as const, step: 2 },
    ],
  ]);
  await guard(gateway, '/stream', [
    { ref: 'block', phase: 'stream' },
    { ref: 'respond', phase: 'stream', step: 1 },
    { ref: 'polite', phase: 'stream', step: 2 },
  ]);
  await guard(gateway, '/warned', [
    { ref: 'warn' },
    { ref: 'headers', phase: 'response' },
    { ref: 'warn', phase: 'response' },
  ]);
  await guard(gateway, '/judged', [{ ref: 'judge' }]);
  await guard(gateway, '/judged-open', [{ ref: 'lenient' }]);
  await guard(gateway, '/answers-judged', [{ ref: 'judge', phase: 'response' }]);
});

const ask = (userPath: string, path: string, body: object, headers: Record<string, string> = {}) =>
  gateway.fetch(path, { json: { model, ...body }, headers: { 'x-gateway-user-path': userPath, ...headers } });
const chat = (userPath: string, content: string, body: object = {}, headers: Record<string, string> = {}) =>
  ask(userPath, '/v1/chat/completions', { messages: user(content), ...body }, headers);
const respond = (userPath: string, input: string, body: object = {}) =>
  ask(userPath, '/v1/responses', { input, ...body });
const message = (userPath: string, content: string, body: object = {}) =>
  ask(userPath, '/v1/messages', { messages: user(content), max_tokens: 1000, ...body });
const calls = () =>
  [...gateway.simulated.requests, ...native.requests].filter(({ method }) => method === 'POST').length;

async function recorded(answer: Response): Promise<(type: string) => LoggedEvent['data'] | undefined> {
  const events = await eventsOfExchange(gateway, exchangeOf(answer));
  return (type) => events.findLast((event) => event.type === type)?.data;
}

const textOf = (events: ReturnType<typeof dataOf>) =>
  events.map((event) => event.choices?.[0]?.delta?.content ?? '').join('');

describe('a guardrail of the prompt phase', () => {
  it('blocks with 400, or with its own status; no provider is called, and the verdict is on record', async () => {
    const before = calls();
    for (const [send, word, status] of [
      [chat, 'forbidden', 400],
      [respond, 'forbidden', 400],
      [message, 'forbidden', 400],
      [chat, 'tea', 418],
    ] as const) {
      for (const stream of [false, true]) {
        const answer = await send('/prompt', `Say ${word}`, { stream });
        expect(answer.status).toBe(status);
        expect(await answer.clone().text()).toContain('guardrail_blocked');
        const of = await recorded(answer);
        expect(of('request.refused')).toMatchObject({ status, code: 'guardrail_blocked' });
        expect(of('guardrail.applied')).toMatchObject({ phase: 'prompt', verdict: 'block' });
      }
    }
    expect(calls()).toBe(before);
  });

  it('answers in place of a model, in the dialect of the client', async () => {
    const before = calls();
    const text = 'I cannot talk about that.';
    const completion = await chat('/prompt', 'the weather');
    expect(await json(completion.clone())).toMatchObject({
      ...{
        object: 'chat.completion',
        choices: [{ message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
      },
    });
    const of = await recorded(completion);
    expect(of('exchange.completed')).toMatchObject({ status: 200, attempt: 0 });
    expect(of('usage.recorded')).toBeUndefined();
    const streamed = dataOf(await (await chat('/prompt', 'the weather', { stream: true })).text());
    expect(textOf(streamed)).toBe(text);
    const response = await json(await respond('/prompt', 'the weather'));
    expect(response).toMatchObject({ status: 'completed', output: [{ content: [{ text }] }] });
    const stored = await gateway.fetch(`/v1/responses/${response.id}`, {
      headers: { 'x-gateway-user-path': '/prompt' },
    });
    expect(await json(stored)).toMatchObject({ output: [{ content: [{ text }] }] });
    const events = dataOf(await (await respond('/prompt', 'the weather', { stream: true })).text());
    expect(events.at(-1)).toMatchObject({
      type: 'response.completed',
      response: { output: [{ content: [{ text }] }] },
    });
    expect(await json(await message('/prompt', 'the weather'))).toMatchObject({
      content: [{ text }],
      stop_reason: 'end_turn',
    });
    const parts = dataOf(await (await message('/prompt', 'the weather', { stream: true })).text());
    expect(parts.map((part) => part.delta?.text ?? '').join('')).toBe(text);
    expect(calls()).toBe(before);
  });

  it('answers a repeated request with the same key from the record', async () => {
    const headers = { 'idempotency-key': 'weather-1' };
    for (const stream of [false, true]) {
      headers['idempotency-key'] = `weather-${stream}`;
      const first = await (await chat('/prompt', 'the weather', { stream }, headers)).text();
      const again = await chat('/prompt', 'the weather', { stream }, headers);
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      expect(await again.text()).toBe(first);
    }
  });
});

describe('a guardrail of the response phase', () => {
  it('blocks with 422, and the usage of the provider is recorded', async () => {
    const answer = await chat('/response', 'Reply with exactly: forbidden');
    expect(await errorOf(answer.clone(), 422)).toMatchObject({ code: 'guardrail_blocked', type: 'guardrail_error' });
    const of = await recorded(answer);
    expect(of('exchange.failed')).toMatchObject({ status: 422, reason: 'guardrail', code: 'guardrail_blocked' });
    expect(of('usage.recorded')).toMatchObject({ source: 'provider' });
    expect(of('guardrail.applied')).toMatchObject({
      phase: 'response',
      attempt: 1,
      verdict: 'block',
      decidedBy: 'block',
    });
  });

  it('changes and replaces whole answers, and streams that it collects', async () => {
    expect((await json(await chat('/response', 'Reply with exactly: how rude'))).choices[0].message.content).toBe(
      'how kind',
    );
    expect((await json(await chat('/response', 'Reply with exactly: weather'))).choices[0].message.content).toBe(
      'I cannot talk about that.',
    );
    const changed = await (await chat('/response', 'Reply with exactly: how rude', { stream: true })).text();
    expect(textOf(dataOf(changed))).toBe('how kind');
    const replaced = await (await chat('/response', 'Reply with exactly: weather', { stream: true })).text();
    expect(textOf(dataOf(replaced))).toBe('I cannot talk about that.');
    const blocked = await chat('/response', 'Reply with exactly: forbidden', { stream: true });
    expect((await errorOf(blocked, 422)).code).toBe('guardrail_blocked');
  });

  it('changes all events of a collected response, and the stored response', async () => {
    for (const of of [model, 'openai/simulated-small']) {
      const answer = await respond('/response', 'Reply with exactly: how rude', { stream: true, model: of });
      const text = await answer.text();
      expect(text).not.toContain('rude"');
      const last = dataOf(text).at(-1);
      expect(last).toMatchObject({
        type: 'response.completed',
        response: { output: [{ content: [{ text: 'how kind' }] }] },
      });
      const headers = { 'x-gateway-user-path': '/response' };
      const stored = await json(await gateway.fetch(`/v1/responses/${last.response.id}`, { headers }));
      expect(stored.output[0].content[0].text).toBe('how kind');
      const again = await gateway.fetch(`/v1/responses/${last.response.id}?stream=true`, { headers });
      if (of === model) expect(dataOf(await again.text()).at(-1).response.output[0].content[0].text).toBe('how kind');
    }
  });

  it('changes messages', async () => {
    expect((await json(await message('/response', 'Reply with exactly: how rude'))).content[0].text).toBe('how kind');
    const parts = dataOf(await (await message('/response', 'Reply with exactly: how rude', { stream: true })).text());
    expect(parts.map((part) => part.delta?.text ?? '').join('')).toBe('how kind');
    expect(parts.at(-1).type).toBe('message_stop');
  });
});

describe('a guardrail of the stream phase', () => {
  it('blocks before the first text with an error', async () => {
    for (const send of [chat, respond, message]) {
      const answer = await send('/stream', 'Reply with exactly: forbidden', { stream: true });
      expect(answer.status, await answer.clone().text()).toBe(422);
      expect(await answer.text()).toContain('guardrail_blocked');
    }
  });

  it('ends the stream after text has been sent, with the reason of its dialect', async () => {
    const words = `Reply with exactly: ${'word '.repeat(200)}forbidden and more`;
    const completion = await chat('/stream', words, { stream: true });
    const text = await completion.text();
    const chunks = dataOf(text);
    expect(textOf(chunks)).toContain('word word');
    expect(text).not.toContain('forbidden');
    expect(chunks.findLast((chunk) => chunk.choices?.[0]?.finish_reason)?.choices[0].finish_reason).toBe(
      'content_filter',
    );
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true);
    const of = await recorded(completion);
    expect(of('exchange.completed')).toMatchObject({ finishReason: 'content_filter' });
    expect(of('guardrail.applied')).toMatchObject({ phase: 'stream', verdict: 'block', decidedBy: 'block' });

    const response = dataOf(await (await respond('/stream', words, { stream: true })).text());
    expect(response.at(-1)).toMatchObject({
      ...{ type: 'response.incomplete' },
      response: { status: 'incomplete', incomplete_details: { reason: 'content_filter' } },
    });
    expect(JSON.stringify(response)).not.toContain('forbidden');
    const headers = { 'x-gateway-user-path': '/stream' };
    const stored = await json(await gateway.fetch(`/v1/responses/${response.at(-1).response.id}`, { headers }));
    expect(stored.status).toBe('incomplete');
    expect(JSON.stringify(stored.output)).not.toContain('forbidden');

    const parts = dataOf(await (await message('/stream', words, { stream: true })).text());
    expect(parts.find((part) => part.type === 'message_delta').delta.stop_reason).toBe('refusal');
    expect(parts.at(-1).type).toBe('message_stop');
  });

  it('replaces texts, and the whole answer when nothing was sent', async () => {
    const changed = dataOf(await (await chat('/stream', 'Reply with exactly: how rude', { stream: true })).text());
    expect(textOf(changed)).toBe('how kind');
    const replaced = dataOf(await (await chat('/stream', 'Reply with exactly: weather', { stream: true })).text());
    expect(textOf(replaced)).toBe('I cannot talk about that.');
    const response = dataOf(await (await respond('/stream', 'Reply with exactly: weather', { stream: true })).text());
    expect(response.at(-1).response.output[0].content[0].text).toBe('I cannot talk about that.');
  });

  it('gives a repeated request with the same key the frames that the first client got', async () => {
    const headers = { 'idempotency-key': 'streamed-1' };
    const first = await (await chat('/stream', 'Reply with exactly: how rude', { stream: true }, headers)).text();
    const again = await chat('/stream', 'Reply with exactly: how rude', { stream: true }, headers);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await again.text()).toBe(first);
    const whole = { 'idempotency-key': 'whole-1' };
    const answer = await (await chat('/response', 'Reply with exactly: how rude', {}, whole)).text();
    expect(await (await chat('/response', 'Reply with exactly: how rude', {}, whole)).text()).toBe(answer);
    expect(answer).toContain('how kind');
  });
});

describe('warnings, headers and failures', () => {
  it('are headers of the answer: codes of warnings, and what header_edit sets', async () => {
    const answer = await chat('/warned', 'Reply with exactly: odd');
    expect(answer.headers.get('x-chancery-guardrail')).toBe('warn; code=guardrail_warning');
    expect(answer.headers.get('x-checked')).toBe('yes');
    expect((await json(answer)).choices[0].message.content).toBe('odd');
    const streamed = await chat('/warned', 'Reply with exactly: odd', { stream: true });
    expect(streamed.headers.get('x-chancery-guardrail')).toBe('warn; code=guardrail_warning');
    expect(textOf(dataOf(await streamed.text()))).toBe('odd');
  });

  it('end the request with 500 when the guardrail fails closed, and not when it fails open', async () => {
    const prompt = await chat('/judged', 'hello');
    expect((await errorOf(prompt.clone(), 500)).code).toBe('plugin_failure');
    expect((await recorded(prompt))('guardrail.applied')).toMatchObject({ verdict: 'failure', decidedBy: 'judge' });
    expect((await chat('/judged-open', 'hello')).status).toBe(200);
    for (const stream of [false, true]) {
      const answer = await chat('/answers-judged', 'hello', { stream });
      expect((await errorOf(answer, 500)).code).toBe('plugin_failure');
    }
  });
});

describe('requests that guardrails cannot follow', () => {
  it('are refused: a response in the background of a provider that keeps it', async () => {
    const answer = await respond('/response', 'hello', { background: true, model: 'openai/simulated-small' });
    expect((await errorOf(answer, 400)).param).toBe('background');
    const here = await json(await respond('/response', 'Reply with exactly: how rude', { background: true }));
    const headers = { 'x-gateway-user-path': '/response' };
    const find = async () => json(await gateway.fetch(`/v1/responses/${here.id}`, { headers }));
    await expect.poll(async () => (await find()).status).toBe('completed');
    expect((await find()).output[0].content[0].text).toBe('how kind');
  });
});
