/** However a provider divides its stream, the client of every dialect receives the rules applied to the whole text. */
import type { ServerResponse } from 'node:http';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StreamPhase } from '../../../src/commands/guardrails/phases/stream-phase.ts';
import { chunked } from '../../guardrails/any-chunking.ts';
import { context, step } from '../../guardrails/guardrail-context.ts';
import type { Answered } from '../../support/answered.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts';
import { dataOf, user, withGateway } from '../../support/with-gateway.ts';

const guardrails = [
  {
    name: 'words',
    type: 'string_replace',
    config: { rules: 'Falcon => project\nsecret => [x]', case_insensitive: true },
  },
  {
    name: 'dates',
    type: 'string_replace',
    config: { rules: '(\\d{2})-(\\d{2}) => $2/$1\n\\bfoo\\b => bar', mode: 'regex' },
  },
  { name: 'personal', type: 'pii', config: {} },
] as const;

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  scripted.script((_request, response) => {
    // The models of a provider with Anthropic's API.
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ data: [{ type: 'model', id: 'scripted' }], has_more: false }));
  });
  const { url } = scripted;
  return {
    simulated: false,
    env: {
      ...{ LLAMACPP_BASE_URL: url, OPENAI_BASE_URL: url, OPENAI_API_KEY: 'a-key-for-tests' },
      ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'a-key-for-tests' },
      ...withGuardrails,
    },
  };
});
beforeAll(async () => {
  for (const guardrail of guardrails) await saveGuardrail(gateway, guardrail);
  const steps = guardrails.map(({ name }, at) => ({ ref: name, phase: 'stream' as const, step: at }));
  await guard(gateway, '/ruled', steps);
});
afterAll(() => scripted.close());

/** The rules applied to the whole text. */
function ruled(whole: string): string {
  const steps = guardrails.map(({ type, config }, at) => step(type, config, { step: at }));
  const phase = new StreamPhase(steps, context());
  const text = { key: '0', kind: 'text', isJson: false } as const;
  return phase.push(text, whole).text + phase.end(text).text;
}

const sse = (data: unknown) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
const named = (event: { readonly type: string; readonly sequence_number?: number }) =>
  `event: ${event.type}\n${sse(event)}`;

/** The stream of a provider, by the API that the gateway calls. */
const streams = {
  '/v1/chat/completions'(pieces: readonly string[]): string {
    const chunk = (delta: object, finish_reason: string | null) =>
      sse({
        id: 'c',
        object: 'chat.completion.chunk',
        created: 1,
        model: 'm',
        choices: [{ index: 0, delta, finish_reason }],
      });
    const deltas = pieces.map((content) => chunk({ content }, null));
    return [chunk({ role: 'assistant' }, null), ...deltas, chunk({}, 'stop'), sse('[DONE]')].join('');
  },
  '/v1/messages'(pieces: readonly string[]): string {
    const message = { id: 'm', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null };
    const deltas = pieces.map((text) => ({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text },
    }));
    const delta = { stop_reason: 'end_turn', stop_sequence: null };
    return [
      { type: 'message_start', message: { ...message, usage: { input_tokens: 1, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      ...deltas,
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta, usage: { output_tokens: 3 } },
      { type: 'message_stop' },
    ]
      .map(named)
      .join('');
  },
  '/v1/responses'(pieces: readonly string[]): string {
    const id = `resp_${++responses}`;
    const response = { id, object: 'response', created_at: 1, model: 'm', status: 'in_progress', output: [] };
    const text = pieces.join('');
    const part = (of: string) => ({ type: 'output_text', text: of, annotations: [] });
    const item = { type: 'message', id: `msg_${id}`, role: 'assistant', status: 'in_progress', content: [] };
    const at = { item_id: item.id, output_index: 0, content_index: 0 };
    const whole = { ...item, status: 'completed', content: [part(text)] };
    const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
    return [
      { type: 'response.created', response },
      { type: 'response.output_item.added', output_index: 0, item },
      { type: 'response.content_part.added', ...at, part: part('') },
      ...pieces.map((delta) => ({ type: 'response.output_text.delta', ...at, delta })),
      { type: 'response.output_text.done', ...at, text },
      { type: 'response.content_part.done', ...at, part: part(text) },
      { type: 'response.output_item.done', output_index: 0, item: whole },
      { type: 'response.completed', response: { ...response, status: 'completed', output: [whole], usage } },
    ]
      .map((event, sequence_number) => named({ ...event, sequence_number }))
      .join('');
  },
} as const;
let responses = 0;

/** Writes the bytes divided at the cuts, also within a character. */
async function writeDivided(response: ServerResponse, bytes: Buffer, cuts: readonly number[]): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const ends = [...new Set([...cuts.map((cut) => cut % bytes.length), bytes.length])].sort((a, b) => a - b);
  for (const [index, end] of ends.entries()) {
    const piece = bytes.subarray(ends[index - 1] ?? 0, end);
    await new Promise((written) => response.write(piece, written));
  }
  response.end();
}

/** The text that a client joins, and the one that the last event has, if any. */
function textsOf(events: readonly Answered[]): string[] {
  const joined = events
    .map(({ type, choices, delta }) =>
      type === 'response.output_text.delta' ? delta : (choices?.[0]?.delta?.content ?? delta?.text ?? ''),
    )
    .join('');
  const { response } = events.at(-1);
  return response === undefined ? [joined] : [joined, response.output[0].content[0].text];
}

const words = fc.constantFrom(
  ...['FALCON', 'fal', 'con', 'secret', 'sec', 'ret', '12-34', '12', '-34', 'foo', 'joe@example.org'],
  ...['4111 1111 1111 1111', '"', '\\', '\n', '😀', 'é'],
);
const texts = fc
  .array(fc.tuple(words, fc.constantFrom('', ' ', '. ')), { minLength: 1, maxLength: 12 })
  .map((list) => list.flat().join(''));

const clients = {
  '/v1/chat/completions': { messages: user('hello') },
  '/v1/messages': { messages: user('hello'), max_tokens: 100 },
  '/v1/responses': { input: 'hello' },
} as const;

describe.each([
  ['/v1/chat/completions', 'llamacpp', '/v1/chat/completions'],
  ['/v1/messages', 'llamacpp', '/v1/chat/completions'],
  ['/v1/responses', 'llamacpp', '/v1/chat/completions'],
  ['/v1/messages', 'anthropic', '/v1/messages'],
  ['/v1/chat/completions', 'anthropic', '/v1/messages'],
  ['/v1/responses', 'openai', '/v1/responses'],
] as const)('a client of %s, on a provider of type %s called at %s', (path, type, called) => {
  it('receives the rules applied to the whole text, for any division of the stream', async () => {
    const headers = { 'x-gateway-user-path': '/ruled', 'anthropic-version': '2023-06-01' };
    let changed = 0;
    await fc.assert(
      fc.asyncProperty(chunked(texts), fc.array(fc.nat(), { maxLength: 12 }), async ({ whole, pieces }, cuts) => {
        scripted.script(({ path: at }, response) => {
          // The provider does not have the Responses API.
          if (at !== called) response.writeHead(404).end();
          else void writeDivided(response, Buffer.from(streams[called](pieces)), cuts);
        });
        const body = { ...clients[path], model: `${type}/scripted`, stream: true };
        const answer = await gateway.fetch(path, { json: body, headers });
        const text = await answer.text();
        expect(answer.status, text).toBe(200);
        const expected = ruled(whole);
        for (const received of textsOf(dataOf(text))) expect(received).toBe(expected);
        if (expected !== whole) changed += 1;
      }),
      { numRuns: 40 },
    );
    expect(changed).toBeGreaterThan(10);
  });
});
