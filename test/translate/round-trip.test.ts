import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseCreateResponse } from '../../src/commands/responses/create-request.ts';
import { mergeHistory } from '../../src/commands/responses/history.ts';
import { storedInputItems } from '../../src/commands/responses/input-items.ts';
import type { ResponseObject } from '../../src/providers/translate/chat-to-responses/response-object.ts';
import { responseFromChat } from '../../src/providers/translate/chat-to-responses/stream.ts';
import { plainReasoning } from '../../src/providers/translate/responses-to-chat/reasoning.ts';
import { chatRequestFromResponses } from '../../src/providers/translate/responses-to-chat/request.ts';
import { countOf } from '../support/seed.ts';
import { completedAt, shellFor } from './shells.ts';

const tools = [
  { type: 'function', name: 'f' },
  { type: 'custom', name: 'patch' },
  { type: 'namespace', name: 'agents', tools: [{ type: 'function', name: 'spawn' }] },
];
const options = { model: 'm1', reasoningStyle: plainReasoning };

const said = fc.string({ minLength: 1, unit: 'grapheme' });
const calls = fc.uniqueArray(
  fc.record({
    id: fc.stringMatching(/^call_[a-z]{3}$/),
    function: fc.oneof(
      fc.record({ name: fc.constantFrom('f', 'agents__spawn'), arguments: fc.json() }),
      fc.record({ name: fc.constant('patch'), arguments: said.map((input) => JSON.stringify({ input })) }),
    ),
  }),
  { minLength: 1, maxLength: 3, selector: (call) => call.id },
);
const turns = fc.oneof(
  fc.record({ content: said, reasoning_content: fc.option(said, { nil: undefined }) }),
  fc.record({ content: fc.option(said), reasoning_content: fc.option(said, { nil: undefined }), tool_calls: calls }),
);

type Turn = typeof turns extends fc.Arbitrary<infer Value> ? Value : never;

function messageOf(turn: Turn) {
  const calls = 'tool_calls' in turn ? turn.tool_calls.map((call) => ({ ...call, type: 'function' })) : undefined;
  return { role: 'assistant', ...turn, ...(calls === undefined ? {} : { tool_calls: calls }) };
}

function responseOf(message: object, request: Record<string, unknown> = {}, usage?: object): ResponseObject {
  const shell = shellFor({ tools, ...request });
  const answer = responseFromChat({ choices: [{ index: 0, message }], usage }, shell, completedAt);
  if (!answer.ok) throw new Error(answer.error.message);
  return JSON.parse(JSON.stringify(answer.response));
}

function messagesOf(input: unknown) {
  const request = chatRequestFromResponses({ input, tools }, options);
  if (!request.ok) throw new Error(request.refusal.message);
  return request.body.messages;
}

describe('a turn reaches the chat model again as the same message and the same question', () => {
  it('when it is stored and replayed', () => {
    fc.assert(
      fc.property(said, turns, (question, turn) => {
        const message = messageOf(turn);
        const output = responseOf(message).output.map((item) => ({ ...item }));
        const chain = [{ input_items: storedInputItems(question, 'resp_1a2b'), output }];
        const expected = [{ role: 'user', content: question }, message, { role: 'user', content: 'And now?' }];
        expect(messagesOf(mergeHistory(chain, 'And now?'))).toEqual(JSON.parse(JSON.stringify(expected)));
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('when its client keeps it, and gives it back without a summary', () => {
    fc.assert(
      fc.property(said, turns, (question, turn) => {
        const message = messageOf(turn);
        const { output } = responseOf(message, { store: false, include: ['reasoning.encrypted_content'] });
        const kept = output.map((item) => (item.type === 'reasoning' ? { ...item, summary: [] } : item));
        const requestBody = { role: 'user', content: question };
        expect(messagesOf([requestBody, ...kept])).toEqual(JSON.parse(JSON.stringify([requestBody, message])));
      }),
      { numRuns: countOf(75, 300) },
    );
  });
});

describe('the usage of a turn', () => {
  const tokens = fc.nat(1_000_000);
  const usages = fc.record(
    {
      prompt_tokens: tokens,
      completion_tokens: tokens,
      total_tokens: tokens,
      prompt_tokens_details: fc.record({ cached_tokens: tokens, audio_tokens: tokens }, { requiredKeys: [] }),
      completion_tokens_details: fc.record(
        { reasoning_tokens: tokens, accepted_prediction_tokens: tokens },
        { requiredKeys: [] },
      ),
      timings: fc.jsonValue(),
    },
    { requiredKeys: ['prompt_tokens', 'completion_tokens', 'total_tokens'] },
  );

  it('has the same figures in both vocabularies, and the raw usage of the provider', () => {
    fc.assert(
      fc.property(usages, (given) => {
        const usage = JSON.parse(JSON.stringify(given));
        const reported = responseOf({ role: 'assistant', content: 'Hi' }, {}, usage).usage;
        expect(reported).toMatchObject({
          input_tokens: usage.prompt_tokens,
          output_tokens: usage.completion_tokens,
          total_tokens: usage.total_tokens,
          input_tokens_details: { cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0 },
          output_tokens_details: { reasoning_tokens: usage.completion_tokens_details?.reasoning_tokens ?? 0 },
          prompt_tokens_details: usage.prompt_tokens_details ?? {},
          completion_tokens_details: usage.completion_tokens_details ?? {},
        });
        expect(reported?.raw_usage).toEqual(usage);
      }),
    );
  });
});

describe('no JSON value', () => {
  const items = fc.array(
    fc.record(
      {
        type: fc.constantFrom('message', 'function_call', 'function_call_output', 'custom_tool_call', 'reasoning', ''),
        role: fc.constantFrom('user', 'assistant', 'developer'),
        content: fc.oneof(fc.string(), fc.jsonValue()),
        call_id: fc.constantFrom('a', 'b'),
        name: fc.constantFrom('f', 'patch'),
        output: fc.jsonValue(),
        summary: fc.jsonValue(),
        arguments: fc.jsonValue(),
        encrypted_content: fc.jsonValue(),
        extra_content: fc.jsonValue(),
      },
      { requiredKeys: [] },
    ),
  );
  const bodies = fc.oneof(
    fc.dictionary(
      fc.constantFrom('input', 'tools', 'tool_choice', 'text', 'reasoning', 'include', 'n', 'stream', 'stream_options'),
      fc.jsonValue(),
    ),
    fc.record({ input: items, tools: fc.jsonValue() }, { requiredKeys: ['input'] }),
  );

  it('makes the translation of a request throw: it is translated or refused', () => {
    fc.assert(
      fc.property(bodies, (body) => {
        const result = chatRequestFromResponses(body, options);
        if (!result.ok) expect([400, 404]).toContain(result.refusal.status);
        else expect(result.body.messages.length).toBeGreaterThan(0);
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('makes the check of a create request throw', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.jsonValue(),
          bodies.map((body) => ({ model: 'm', ...body })),
        ),
        (json) => {
          const result = parseCreateResponse(json);
          if (!result.ok) expect(result.refusal.message).not.toBe('');
        },
      ),
      { numRuns: countOf(75, 300) },
    );
  });
});
