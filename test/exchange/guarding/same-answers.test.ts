/** Guardrails that change nothing leave an answer as it is: the same events, members and headers, in every dialect. */

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { isCarried } from '../../../src/providers/translate/responses-to-chat/reasoning.ts';
import type { Answered } from '../../support/answered.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { someOf } from '../../support/seed.ts';
import { dataOf, user, weather, withGateway } from '../../support/with-gateway.ts';

const other = createSimulatedProvider({ apiKey: 'sk-native' });
const gateway = withGateway(async () => {
  const url = await other.listen();
  return {
    simulated: { responses: 'absent' },
    register: (own) => ({
      ...{ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-native' },
      ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'sk-native' },
    }),
    env: withGuardrails,
  };
});
afterEach(() => other.control.clear());
afterAll(() => other.close());

beforeAll(async () => {
  const config = { rules: '∅∅ => nothing', roles: ['system', 'user', 'assistant', 'tool'] };
  await saveGuardrail(gateway, { name: 'personal-data', type: 'pii' });
  await saveGuardrail(gateway, { name: 'codenames', type: 'string_replace', config });
  await saveGuardrail(gateway, { name: 'team', type: 'header_edit', config: { request_set: 'x-team: clients' } });
  const prompt = ['personal-data', 'codenames', 'team'].map((ref, step) => ({ ref, step, phase: 'prompt' as const }));
  const response = { ref: 'codenames', phase: 'response' as const };
  await guard(gateway, '/arriving', [...prompt, response, { ...response, phase: 'stream' }]);
  await guard(gateway, '/collected', [...prompt, response]);
});

const llamacpp = 'llamacpp/simulated-small';
const openai = 'openai/simulated-small';
const anthropic = 'anthropic/simulated-small';

const place = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};
const sentence = 'Tell me something.';
const question = 'Think: what is the weather in Paris and Rome?';
const refusal = 'Refuse: I cannot help with that.';

type Scenario = readonly [name: string, models: readonly string[], path: string, body: object];

const chat = (name: string, content: string, body: object = {}, models = [llamacpp, openai, anthropic]): Scenario => [
  ...([`chat: ${name}`, models, '/v1/chat/completions'] as const),
  { messages: user(content), ...body },
];
const response = (name: string, input: string, body: object = {}, models = [llamacpp, openai, anthropic]): Scenario => [
  ...([`a response: ${name}`, models, '/v1/responses'] as const),
  { input, ...body },
];
const message = (name: string, content: string, body: object = {}): Scenario => [
  ...([`a message: ${name}`, [llamacpp, openai, anthropic], '/v1/messages'] as const),
  { messages: user(content), max_tokens: 4_000, ...body },
];
const completion = (name: string, body: object): Scenario => [
  ...([`a completion: ${name}`, [llamacpp, openai], '/v1/completions'] as const),
  { prompt: 'Once upon a time', ...body },
];
const format = { type: 'json_schema', name: 'place', schema: place, strict: true };
const chatFormat = { type: 'json_schema', json_schema: { name: 'place', schema: place, strict: true } };
const freeform = { type: 'custom', name: 'run', description: 'Runs a script' };

const scenarios: readonly Scenario[] = [
  chat('text', sentence, { stream_options: { include_usage: true } }),
  chat('log probabilities', sentence, { logprobs: true, top_logprobs: 2 }, [llamacpp, openai]),
  chat('two choices', sentence, { n: 2 }, [llamacpp, openai]),
  chat('tools', question, { tools: [{ type: 'function', function: weather }] }),
  chat('a custom tool', question, { tools: [{ type: 'custom', custom: freeform }] }, [llamacpp, openai]),
  chat('a refusal', refusal, { logprobs: true }, [llamacpp, openai]),
  chat('a schema', 'Tell me of Oslo', { response_format: chatFormat }),
  chat('the longest answer', sentence, { max_tokens: 4 }),
  response('text', sentence, { instructions: 'Obey.', metadata: { a: 'b' } }),
  response('log probabilities', sentence, { include: ['message.output_text.logprobs'], top_logprobs: 2 }, [
    ...[llamacpp, openai],
  ]),
  response('tools', question, { tools: [{ type: 'function', strict: true, ...weather }] }),
  response('a custom tool', question, { tools: [freeform] }, [llamacpp, openai]),
  response('a refusal', refusal),
  response('a schema', 'Tell me of Oslo', { text: { format } }),
  response('the longest answer', sentence, { max_output_tokens: 16 }),
  message('text', sentence),
  message('tools and thinking', question, {
    thinking: { type: 'enabled', budget_tokens: 1024 },
    tools: [{ name: weather.name, description: weather.description, input_schema: weather.parameters }],
  }),
  message('the longest answer', sentence, { max_tokens: 4 }),
  message('a stop sequence', 'Reply with exactly: one two three', { stop_sequences: ['two'] }),
  completion('text', { stream_options: { include_usage: true } }),
  completion('log probabilities', { logprobs: 2 }),
  completion('two choices', { n: 2 }),
];
const cases = scenarios.flatMap(([name, models, path, body]) =>
  models.flatMap((model) => [{ name: `${name}, ${model.split('/')[0]}`, path, body: { ...body, model } }]),
);

const volatile = new Set(['created', 'created_at', 'completed_at', 'obfuscation']);

/** Ids by the order of their occurrence, and no times: two answers to the same request differ in them. */
function comparable(value: unknown): unknown {
  const ids = new Map<string, string>();
  const read = (one: unknown, name: string): unknown => {
    if (volatile.has(name)) return typeof one;
    if (typeof one === 'string' && /(^|_)id$|^encrypted_content$|^signature$/.test(name)) {
      // Reasoning that the gateway carries in a form of its own is left out of guarded answers.
      const id = isCarried(one) ? '' : one;
      if (!ids.has(id)) ids.set(id, `id ${ids.size}`);
      return ids.get(id);
    }
    if (Array.isArray(one)) return one.map((each) => read(each, ''));
    if (typeof one !== 'object' || one === null) return one;
    return Object.fromEntries(Object.entries(one).map(([key, each]) => [key, read(each, key)]));
  };
  return read(value, '');
}

/** A stream of a provider's own response events passes unchanged; one that the gateway writes has the member `provider`. */
function unnamed(event: Answered): Answered {
  return event.response === undefined ? event : { ...event, response: { ...event.response, provider: undefined } };
}

async function answerTo(path: string, body: object, userPath: string) {
  const headers = { 'x-gateway-user-path': userPath, 'anthropic-version': '2023-06-01' };
  const answer = await gateway.fetch(path, { json: body, headers });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  const names = [...answer.headers.keys()].filter((name) => name !== 'content-length');
  return { text, headers: names.map((name) => [name, isOfOneAnswer(name) ? '' : answer.headers.get(name)]) };
}

const isOfOneAnswer = (name: string) => /^date$|id$|-ms$/.test(name);

describe.each(someOf(cases, ({ name }) => name.split(', ')))('$name', ({ path, body }) => {
  it('is the same answer through three guardrails', async () => {
    const plain = await answerTo(path, body, '/plain');
    const guarded = await answerTo(path, body, '/arriving');
    expect(comparable(JSON.parse(guarded.text))).toEqual(comparable(JSON.parse(plain.text)));
    expect(guarded.headers).toEqual(plain.headers);
  });

  it.each(['/arriving', '/collected'])('is the same stream through three guardrails: %s', async (userPath) => {
    const streamed = { ...body, stream: true };
    const plain = await answerTo(path, streamed, '/plain');
    const guarded = await answerTo(path, streamed, userPath);
    expect(comparable(dataOf(guarded.text).map(unnamed))).toEqual(comparable(dataOf(plain.text).map(unnamed)));
    expect(guarded.text.endsWith('data: [DONE]\n\n')).toBe(plain.text.endsWith('data: [DONE]\n\n'));
    expect(guarded.headers).toEqual(plain.headers);
  });
});

describe.each([
  ['/arriving', 2],
  ['/collected', 5],
])('a stream through guardrails (%s) whose provider reports an error before anything was sent', (userPath, frames) => {
  it.each([
    ['/v1/chat/completions', { messages: user(sentence) }, llamacpp],
    ['/v1/chat/completions', { messages: user(sentence) }, openai],
    ['/v1/responses', { input: sentence }, llamacpp],
    ['/v1/responses', { input: sentence }, openai],
  ])('is the error of the provider: %s', async (path, body, model) => {
    const provider = model === llamacpp ? gateway.simulated : other;
    // With its first request the gateway learns that a provider has no Responses API.
    await gateway.fetch(path, { json: { ...body, model } });
    provider.control.always({
      errorInStream: path === '/v1/responses' && model === openai ? frames : 1,
      message: 'out of memory',
    });
    const headers = { 'x-gateway-user-path': userPath };
    const answer = await gateway.fetch(path, { json: { ...body, model, stream: true }, headers });
    expect(answer.status).toBe(502);
    expect(await answer.text()).toContain('out of memory');
  });
});
