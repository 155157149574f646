import { describe, expect, it } from 'vitest';
import { responseFromChat } from '../../src/providers/translate/chat-to-responses/stream.ts';
import { checkResponse, requiredMembers } from './openai-shape.ts';
import { completedAt, shellFor } from './shells.ts';

function completion(message: object, finish_reason: string | null = 'stop', more: object = {}) {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm1',
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason, ...more }],
    usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
  };
}

function answer(given: unknown, shell = shellFor()) {
  const result = responseFromChat(given, shell, completedAt);
  if (!result.ok) throw new Error(result.error.message);
  checkResponse(result.response);
  return result.response;
}

describe('a chat answer becomes a response', () => {
  it('with every member that clients require', () => {
    expect(Object.keys(answer(completion({ content: 'Hello' })))).toEqual(expect.arrayContaining(requiredMembers));
  });

  it('of one message with its text', () => {
    expect(answer(completion({ content: 'Hello' }))).toMatchObject({
      id: 'resp_1a2b',
      status: 'completed',
      completed_at: completedAt,
      incomplete_details: null,
      provider: 'local',
      model: 'm1',
      output: [
        {
          id: 'msg_1a2b_0',
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'Hello', annotations: [], logprobs: [] }],
        },
      ],
    });
  });

  it('the same way each time, to the byte', () => {
    const given = completion({
      content: 'Hello',
      tool_calls: [{ type: 'function', function: { name: 'f', arguments: '{}' } }],
    });
    expect(JSON.stringify(answer(given))).toBe(JSON.stringify(answer(structuredClone(given))));
  });

  it('with reasoning first, as a summary', () => {
    const { output } = answer(completion({ reasoning_content: 'Hm.', content: 'Yes.' }));
    expect(output).toMatchObject([
      { id: 'rs_1a2b_0', type: 'reasoning', status: 'completed', summary: [{ type: 'summary_text', text: 'Hm.' }] },
      { id: 'msg_1a2b_1', type: 'message' },
    ]);
  });

  it.each([
    ['reasoning', { reasoning: 'Hm.', content: 'Yes.' }],
    ['both spellings at once', { reasoning: 'Hm.', reasoning_content: 'Hm.', content: 'Yes.' }],
    [
      'thinking parts',
      {
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
          { type: 'text', text: 'Yes.' },
        ],
      },
    ],
  ])('with reasoning spelled as %s', (_name, message) => {
    const { output } = answer(completion(message));
    expect(output).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'Hm.' }] },
      { type: 'message', content: [{ text: 'Yes.' }] },
    ]);
  });

  it('with a function call for each tool call', () => {
    const tool_calls = [
      { id: 'call_a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } },
      { id: 'call_b', type: 'function', function: { name: 'g', arguments: '' } },
    ];
    expect(answer(completion({ content: null, tool_calls }, 'tool_calls')).output).toEqual([
      {
        id: 'fc_1a2b_0',
        type: 'function_call',
        status: 'completed',
        call_id: 'call_a',
        name: 'f',
        arguments: '{"x":1}',
      },
      { id: 'fc_1a2b_1', type: 'function_call', status: 'completed', call_id: 'call_b', name: 'g', arguments: '{}' },
    ]);
  });

  it('with generated call ids where the provider gave none, or the same one twice', () => {
    const f = { type: 'function', function: { name: 'f', arguments: '{}' } };
    const { output } = answer(completion({ content: '', tool_calls: [f, { ...f, id: 'x' }, { ...f, id: 'x' }] }));
    expect(output.map((item) => 'call_id' in item && item.call_id)).toEqual(['call_1a2b_0', 'x', 'call_1a2b_2']);
  });

  it('with arguments as JSON text, also when a server sends an object', () => {
    const tool_calls = [{ id: 'x', function: { name: 'f', arguments: { a: 1 } } }];
    expect(answer(completion({ content: null, tool_calls })).output).toMatchObject([{ arguments: '{"a":1}' }]);
  });

  it('with the older single function call', () => {
    const message = { content: null, function_call: { name: 'f', arguments: '{}' } };
    expect(answer(completion(message, 'function_call')).output).toMatchObject([
      { type: 'function_call', call_id: 'call_1a2b_0', name: 'f' },
    ]);
  });

  it('with calls of custom and namespaced tools under their original names', () => {
    const shell = shellFor({
      tools: [
        { type: 'custom', name: 'patch' },
        { type: 'namespace', name: 'agents', tools: [{ type: 'function', name: 'spawn' }] },
      ],
    });
    const tool_calls = [
      { id: '1', function: { name: 'patch', arguments: '{"input":"say \\"hi\\""}' } },
      { id: '2', function: { name: 'patch', arguments: 'not json' } },
      { id: '3', function: { name: 'agents__spawn', arguments: '{}' } },
    ];
    expect(answer(completion({ content: null, tool_calls }), shell).output).toMatchObject([
      { id: 'ctc_1a2b_0', type: 'custom_tool_call', call_id: '1', name: 'patch', input: 'say "hi"' },
      { id: 'ctc_1a2b_1', type: 'custom_tool_call', call_id: '2', name: 'patch', input: 'not json' },
      { id: 'fc_1a2b_2', type: 'function_call', call_id: '3', name: 'spawn', namespace: 'agents' },
    ]);
  });

  it('with the extra content that a vendor requires back with its call', () => {
    const extra_content = { google: { thought_signature: 'x' } };
    const tool_calls = [{ id: '1', extra_content, function: { name: 'f', arguments: '{}' } }];
    expect(answer(completion({ content: null, tool_calls })).output).toMatchObject([{ extra_content }]);
  });

  it('with a refusal as its own part', () => {
    expect(answer(completion({ content: null, refusal: 'I will not.' })).output).toMatchObject([
      { type: 'message', content: [{ type: 'refusal', refusal: 'I will not.' }] },
    ]);
  });

  it('with an empty text when the content is null', () => {
    expect(answer(completion({ content: null })).output).toMatchObject([{ content: [{ text: '' }] }]);
  });

  it.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ])('that is incomplete after %s', (finish, reason) => {
    const response = answer(completion({ reasoning_content: 'Hm.', content: 'Hel' }, finish));
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason }, completed_at: null });
    expect(response.output.map((item) => item.status)).toEqual(['completed', 'incomplete']);
  });

  it.each([['tool_calls'], ['eos'], [null]])('that is completed after %s', (finish) => {
    expect(answer(completion({ content: 'Hello' }, finish)).status).toBe('completed');
  });

  it('with log probabilities, without members of one server only', () => {
    const token = { id: 31733, token: 'Hi', bytes: [72, 105], logprob: -0.5 };
    const logprobs = { content: [{ ...token, top_logprobs: [{ ...token, bytes: null }] }] };
    const { output } = answer(completion({ content: 'Hi' }, 'stop', { logprobs }));
    expect(output).toMatchObject([
      {
        content: [
          {
            logprobs: [
              {
                token: 'Hi',
                logprob: -0.5,
                bytes: [72, 105],
                top_logprobs: [{ token: 'Hi', logprob: -0.5, bytes: [] }],
              },
            ],
          },
        ],
      },
    ]);
  });

  it('with citations in flat form; one that lacks a member is left out', () => {
    const whole = { url: 'https://x', title: 'X', start_index: 0, end_index: 2 };
    const annotations = [
      { type: 'url_citation', url_citation: whole },
      { type: 'url_citation', ...whole },
      { type: 'url_citation', url_citation: { url: 'https://y' } },
      { type: 'unheard_of', a: 1 },
    ];
    const { output } = answer(completion({ content: 'Hi', annotations }));
    const flat = { type: 'url_citation', ...whole };
    expect(output).toMatchObject([{ content: [{ annotations: [flat, flat] }] }]);
  });

  it('with the service tier that was really used', () => {
    expect(answer({ ...completion({ content: 'Hi' }), service_tier: 'flex' }).service_tier).toBe('flex');
    expect(answer(completion({ content: 'Hi' })).service_tier).toBe('default');
  });

  it('of the first choice, when a server sends several', () => {
    const given = completion({ content: 'one' });
    const second = { index: 1, message: { content: 'two' }, finish_reason: 'stop' };
    const { output } = answer({ ...given, choices: [...given.choices, second] });
    expect(output).toMatchObject([{ content: [{ text: 'one' }] }]);
  });
});

describe('usage', () => {
  it('has the members of both vocabularies, and the raw usage', () => {
    const usage = {
      prompt_tokens: 13,
      completion_tokens: 85,
      total_tokens: 98,
      prompt_tokens_details: { cached_tokens: 4, audio_tokens: 0, text_tokens: null },
      completion_tokens_details: { reasoning_tokens: 64 },
    };
    expect(answer({ ...completion({ content: 'Hi' }), usage }).usage).toEqual({
      input_tokens: 13,
      input_tokens_details: { cached_tokens: 4, cache_write_tokens: 0 },
      output_tokens: 85,
      output_tokens_details: { reasoning_tokens: 64 },
      total_tokens: 98,
      prompt_tokens_details: { cached_tokens: 4, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 64 },
      raw_usage: usage,
    });
  });

  it('has zeros for details, and a computed sum, that the provider did not report', () => {
    expect(
      answer({ ...completion({ content: 'Hi' }), usage: { prompt_tokens: 2, completion_tokens: 3 } }).usage,
    ).toMatchObject({
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 5,
    });
  });

  it('is null when the provider reported none', () => {
    expect(answer({ ...completion({ content: 'Hi' }), usage: undefined }).usage).toBeNull();
  });
});

describe('an answer without a message is an error value', () => {
  it.each([
    ['no choices', { choices: [] }],
    ['choices of another shape', { choices: [{ index: 0 }] }],
    ['no object', 'Bad gateway'],
    ['null', null],
  ])('%s', (_name, given) => {
    expect(responseFromChat(given, shellFor(), completedAt)).toEqual({
      ok: false,
      error: { code: 'provider_error', message: "Provider 'local' gave an answer without a choice." },
    });
  });

  it('also when its finish reason is an error', () => {
    const completion = { choices: [{ index: 0, message: { content: 'Hel' }, finish_reason: 'error' }] };
    expect(responseFromChat(completion, shellFor(), completedAt)).toMatchObject({
      ok: false,
      error: { code: 'provider_error', message: expect.stringContaining("'local'") },
    });
  });

  it('with the message that the provider sent', () => {
    const given = { error: { code: 500, message: 'out of memory', type: 'server_error' } };
    expect(responseFromChat(given, shellFor(), completedAt)).toEqual({
      ok: false,
      error: { code: 'provider_error', message: 'out of memory' },
    });
  });
});
