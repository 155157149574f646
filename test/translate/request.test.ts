import { describe, expect, it } from 'vitest';
import { plainReasoning, type ReasoningStyle } from '../../src/providers/translate/responses-to-chat/reasoning.ts';
import { chatRequestFromResponses } from '../../src/providers/translate/responses-to-chat/request.ts';

function translate(body: Record<string, unknown>, reasoningStyle = plainReasoning) {
  return chatRequestFromResponses({ input: 'hi', ...body }, { model: 'm1', reasoningStyle });
}

function chat(body: Record<string, unknown>, reasoningStyle = plainReasoning) {
  const result = translate(body, reasoningStyle);
  if (!result.ok) throw new Error(result.refusal.message);
  return result.body;
}

function refusal(body: Record<string, unknown>) {
  const result = translate(body);
  if (result.ok) throw new Error(`was accepted: ${JSON.stringify(result.body)}`);
  return result.refusal;
}

/** The members beside `model` and `messages`. */
function members(body: Record<string, unknown>, reasoningStyle = plainReasoning) {
  const { model: _model, messages: _messages, ...rest } = chat(body, reasoningStyle);
  return rest;
}

describe('a Responses request becomes a chat request', () => {
  it('with the provider’s model id and the input as a user message', () => {
    expect(chat({ model: 'local/m1', input: 'hi' })).toEqual({
      model: 'm1',
      messages: [{ role: 'user', content: 'hi' }],
    });
  });

  it('with the instructions as first system message', () => {
    expect(chat({ instructions: 'Be brief.' }).messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
  });

  it('with instructions given as items', () => {
    const instructions = [{ type: 'message', role: 'developer', content: 'Be brief.' }];
    expect(chat({ instructions }).messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
  });

  it.each([
    ['max_output_tokens', { max_output_tokens: 12 }, { max_tokens: 12 }],
    ['temperature and top_p', { temperature: 0, top_p: 0.5 }, { temperature: 0, top_p: 0.5 }],
    ['user and service_tier', { user: 'u', service_tier: 'flex' }, { user: 'u', service_tier: 'flex' }],
    ['an unknown member', { seed: 7, mirostat: 2 }, { seed: 7, mirostat: 2 }],
    ['penalties', { presence_penalty: 1, frequency_penalty: -1 }, { presence_penalty: 1, frequency_penalty: -1 }],
    ['stream', { stream: true }, { stream: true, stream_options: { include_usage: true } }],
    [
      'stream with usage refused by the client',
      { stream: true, stream_options: { include_usage: false, include_obfuscation: false } },
      { stream: true, stream_options: { include_usage: true } },
    ],
    ['stream: false', { stream: false }, {}],
    ['text.verbosity', { text: { verbosity: 'low' } }, { verbosity: 'low' }],
    ['text.format text', { text: { format: { type: 'text' } } }, {}],
    [
      'text.format json_object',
      { text: { format: { type: 'json_object' } } },
      { response_format: { type: 'json_object' } },
    ],
    [
      'text.format json_schema',
      {
        text: {
          format: { type: 'json_schema', name: 'city', strict: true, schema: { type: 'object' }, description: null },
        },
      },
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'city', strict: true, schema: { type: 'object' } },
        },
      },
    ],
    ['reasoning.effort', { reasoning: { effort: 'low', summary: 'auto' } }, { reasoning_effort: 'low' }],
    ['reasoning without effort', { reasoning: { summary: 'auto' } }, {}],
    ['log probabilities asked by include', { include: ['message.output_text.logprobs'] }, { logprobs: true }],
    ['top_logprobs', { top_logprobs: 3 }, { logprobs: true, top_logprobs: 3 }],
    ['include values that nothing is sent for', { include: ['reasoning.encrypted_content', 'reasoning.content'] }, {}],
    [
      'include values for hosted tools, of which none run',
      { include: ['file_search_call.results', 'web_search_call.action.sources', 'code_interpreter_call.outputs'] },
      {},
    ],
    [
      'stream options that a server may know',
      { stream: true, stream_options: { continuous_usage_stats: true, other: null } },
      { stream: true, stream_options: { continuous_usage_stats: true, include_usage: true } },
    ],
    ['text.verbosity medium, which is what nothing means', { text: { verbosity: 'medium' } }, {}],
    ['service_tier auto, which is what nothing means', { service_tier: 'auto' }, {}],
    ['service_tier default, likewise', { service_tier: 'default' }, {}],
    ['reasoning as it is without asking', { reasoning: { mode: 'standard', context: 'auto' } }, {}],
    ['truncation disabled', { truncation: 'disabled' }, {}],
  ])('%s', (_name, given, expected) => {
    expect(members(given)).toEqual(expected);
  });

  it('without members that have no effect on the answer', () => {
    const given = {
      background: true,
      client_metadata: { a: 'b' },
      max_tool_calls: 3,
      metadata: { a: 'b' },
      prompt_cache_key: 'k',
      prompt_cache_options: { mode: 'explicit' },
      prompt_cache_retention: '24h',
      provider: 'local',
      safety_identifier: 's',
      store: false,
    };
    expect(members(given)).toEqual({});
  });

  it('when every optional member is null or empty, as some clients send them', () => {
    const given = {
      include: null,
      truncation: null,
      previous_response_id: null,
      conversation: null,
      reasoning: {},
      instructions: '',
      user: '',
      text: {},
      tools: [],
      tool_choice: null,
      parallel_tool_calls: null,
      metadata: null,
      store: null,
      stream: null,
      stream_options: null,
      max_output_tokens: null,
      temperature: null,
      top_p: null,
      top_logprobs: null,
      prompt: null,
      context_management: null,
      service_tier: null,
      seed: null,
    };
    expect(chat(given)).toEqual({ model: 'm1', messages: [{ role: 'user', content: 'hi' }] });
  });

  it('and is not changed by it', () => {
    const given = Object.freeze({ model: 'x', input: Object.freeze([Object.freeze({ role: 'user', content: 'hi' })]) });
    expect(() => chat(given)).not.toThrow();
  });
});

describe('reasoning effort', () => {
  it.each(['ludicrous', 'HIGH', 7, {}])('%j is no level, and is refused', (effort) => {
    const refused = { status: 400, code: 'invalid_value', param: 'reasoning.effort' };
    expect(refusal({ reasoning: { effort } })).toMatchObject(refused);
  });

  it.each([
    ['max', 'high'],
    ['xhigh', 'high'],
    ['high', 'high'],
    ['minimal', 'minimal'],
    ['none', 'none'],
  ])('%s reaches a plain server as %s', (wanted, sent) => {
    expect(members({ reasoning: { effort: wanted } })).toEqual({ reasoning_effort: sent });
  });

  it.each([
    ['minimal', 'low'],
    ['medium', 'low'],
    ['max', 'high'],
    ['none', 'none'],
  ])('%s is sent as %s where none, low and high are known: thinking is not switched off', (wanted, sent) => {
    const style: ReasoningStyle = { ...plainReasoning, levels: ['none', 'low', 'high'] };
    expect(members({ reasoning: { effort: wanted } }, style)).toEqual({ reasoning_effort: sent });
  });

  it('none is sent as the lowest level where thinking cannot be switched off', () => {
    const style: ReasoningStyle = { ...plainReasoning, levels: ['medium', 'high'] };
    expect(members({ reasoning: { effort: 'none' } }, style)).toEqual({ reasoning_effort: 'medium' });
  });

  it('goes as an object where the provider expects one, without the summary', () => {
    const style = { ...plainReasoning, effort: 'object' as const };
    expect(members({ reasoning: { effort: 'max', summary: 'auto', max_tokens: 9 } }, style)).toEqual({
      reasoning: { effort: 'high', max_tokens: 9 },
    });
    expect(members({ reasoning: { summary: 'auto' } }, style)).toEqual({});
  });

  it('is left out where the provider has no such member', () => {
    expect(members({ reasoning: { effort: 'high' } }, { ...plainReasoning, effort: 'omit' })).toEqual({});
  });
});

describe('members that only a native Responses provider supports are refused by name', () => {
  it.each([
    ['prompt', { prompt: { id: 'p' } }],
    ['context_management', { context_management: [{ type: 'compaction' }] }],
    ['moderation', { moderation: { model: 'x' } }],
    ['truncation', { truncation: 'sometimes' }],
    ['previous_response_id', { previous_response_id: 'resp_0' }],
    ['conversation', { conversation: { id: 'conv_0' } }],
    ['n', { n: 2 }],
    ['text.format.type', { text: { format: { type: 'grammar' } } }],
    ['text.tone', { text: { tone: 'warm' } }],
    ['access_programs', { access_programs: { cyber: 'standard' } }],
    ['image', { image: { context_compression: 'enabled' } }],
    ['stream_options.include_obfuscation', { stream: true, stream_options: { include_obfuscation: true } }],
    ['reasoning.mode', { reasoning: { mode: 'pro' } }],
    ['reasoning.context', { reasoning: { context: 'all_turns' } }],
    ['reasoning.max_tokens', { reasoning: { max_tokens: 100 } }],
  ])('%s', (param, given) => {
    expect(refusal(given)).toMatchObject({ status: 400, code: 'unsupported_parameter', param });
  });

  it('an unknown value of include, with the known ones in the message', () => {
    expect(refusal({ include: ['reasoning.encrypted_content', 'everything'] })).toMatchObject({
      status: 400,
      code: 'unsupported_value',
      param: 'include[1]',
      message: expect.stringContaining('message.output_text.logprobs'),
    });
  });

  it('and so is an input with nothing in it', () => {
    expect(refusal({ input: [] })).toMatchObject({ status: 400, param: 'input' });
  });
});
