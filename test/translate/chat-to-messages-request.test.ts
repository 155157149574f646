import { describe, expect, it } from 'vitest';
import { messagesRequestFromChat } from '../../src/providers/translate/chat-to-messages/request.ts';
import type { JsonObject } from '../../src/providers/translate/json.ts';

const facts = { model: 'claude-sonnet-4-6', stream: false, options: {} };
const hello = [{ role: 'user', content: 'hello' }];
const thoughtless = { ...facts, model: 'claude-3-5-haiku-20241022' };
const older = { ...facts, model: 'claude-haiku-4-5-20251001' };

function translated(chat: JsonObject, given: Partial<typeof facts> = {}): JsonObject {
  const result = messagesRequestFromChat({ messages: hello, ...chat }, { ...facts, ...given });
  if (!result.ok) throw new Error(result.refusal.message);
  return result.body;
}

function refusal(chat: JsonObject, given: Partial<typeof facts> = {}) {
  const result = messagesRequestFromChat({ messages: hello, ...chat }, { ...facts, ...given });
  if (result.ok) throw new Error(`it was translated: ${JSON.stringify(result.body)}`);
  return result.refusal;
}

const messagesOf = (messages: unknown[]) => translated({ messages })['messages'];
const call = (id: string, args = '{"city":"Paris"}', more: object = {}) => ({
  id,
  type: 'function',
  function: { name: 'get_weather', arguments: args },
  ...more,
});

describe('messages', () => {
  it('of a plain chat become turns, and its instructions the system prompt', () => {
    expect(
      translated({
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'Hi', name: 'ada' },
          { role: 'assistant', content: 'Hello.' },
          { role: 'user', content: 'Bye' },
        ],
      }),
    ).toEqual({
      model: 'claude-sonnet-4-6',
      max_tokens: 4096,
      system: 'Be brief.',
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: 'Hello.' },
        { role: 'user', content: 'Bye' },
      ],
    });
  });

  it('of system and developer are gathered in their order, as blocks, with their cache markers', () => {
    const marked = { type: 'text', text: 'b', cache_control: { type: 'ephemeral' } };
    const { system } = translated({
      messages: [
        { role: 'developer', content: 'a' },
        { role: 'user', content: 'hello' },
        { role: 'system', content: [marked, { type: 'text', text: '' }] },
      ],
    });
    expect(system).toEqual([{ type: 'text', text: 'a' }, marked]);
  });

  it('of one side in a row are one turn', () => {
    expect(
      messagesOf([
        { role: 'user', content: 'a' },
        { role: 'user', content: 'b' },
      ]),
    ).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ]);
  });

  it('carry images, files and unknown parts', () => {
    const own = { type: 'search_result', source: 'x', title: 'y', content: [] };
    expect(
      messagesOf([
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look:', cache_control: { type: 'ephemeral' } },
            { type: 'image_url', image_url: { url: 'data:image/jpg;base64,AAAA', detail: 'low' } },
            { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0x' } },
            { type: 'file', file: { file_data: 'JVBERi0x' } },
            { type: 'file', file: { filename: 'a.txt', file_data: 'data:text/plain;base64,aGk=' } },
            { type: 'file', file: { file_data: 'data:image/png;base64,AAAA' } },
            { type: 'file', file: { file_url: 'https://example.com/a.pdf' } },
            own,
          ],
        },
      ]),
    ).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look:', cache_control: { type: 'ephemeral' } },
          { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'AAAA' } },
          { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
          {
            type: 'document',
            source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0x' },
            title: 'a.pdf',
          },
          { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0x' } },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'hi' }, title: 'a.txt' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
          { type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } },
          own,
        ],
      },
    ]);
  });

  it('with calls become tool_use, and all results of a turn come together, before the text that follows', () => {
    expect(
      messagesOf([
        ...hello,
        { role: 'assistant', content: 'Let me see.', tool_calls: [call('a'), call('b.1', '')] },
        { role: 'tool', tool_call_id: 'a', content: 'sunny' },
        { role: 'user', content: 'Quick!' },
        {
          role: 'tool',
          tool_call_id: 'b.1',
          content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }],
          extra_content: { anthropic: { is_error: true } },
        },
      ]),
    ).toEqual([
      { role: 'user', content: 'hello' },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Let me see.' },
          { type: 'tool_use', id: 'a', name: 'get_weather', input: { city: 'Paris' } },
          { type: 'tool_use', id: 'b_1', name: 'get_weather', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'sunny' },
          {
            type: 'tool_result',
            tool_use_id: 'b_1',
            content: [{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }],
            is_error: true,
          },
          { type: 'text', text: 'Quick!' },
        ],
      },
    ]);
  });

  it.each<[string, object, string]>([
    [
      'arguments that are cut off',
      { role: 'assistant', tool_calls: [call('a', '{"ci')] },
      '[1].tool_calls[0].function.arguments',
    ],
    [
      'arguments that are no object',
      { role: 'assistant', tool_calls: [call('a', '[1]')] },
      '[1].tool_calls[0].function.arguments',
    ],
    ['a call without an id', { role: 'assistant', tool_calls: [{ function: { name: 'f' } }] }, '[1].tool_calls[0].id'],
    [
      'a call without a name',
      { role: 'assistant', tool_calls: [{ id: 'a', function: {} }] },
      '[1].tool_calls[0].function.name',
    ],
    [
      'a call of a custom tool',
      { role: 'assistant', tool_calls: [{ id: 'a', type: 'custom', custom: {} }] },
      '[1].tool_calls[0]',
    ],
    ['a result without an id', { role: 'tool', content: 'x' }, '[1].tool_call_id'],
    ['a result of the older form', { role: 'function', name: 'f', content: 'x' }, '[1].role'],
    ['audio', { role: 'user', content: [{ type: 'input_audio', input_audio: {} }] }, '[1].content[0].type'],
    ['a stored file', { role: 'user', content: [{ type: 'file', file: { file_id: 'f' } }] }, '[1].content[0].file'],
    [
      'a file of another kind',
      { role: 'user', content: [{ type: 'file', file: { file_data: 'data:application/zip;base64,AA' } }] },
      '[1].content[0].file.file_data',
    ],
    [
      'an image that is no address',
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'a.png' } }] },
      '[1].content[0].image_url',
    ],
    [
      'an image among the instructions',
      { role: 'system', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c' } }] },
      '[1].content',
    ],
    ['content that is a number', { role: 'user', content: 1 }, '[1].content'],
    ['a part that is a number', { role: 'user', content: [1] }, '[1].content[0]'],
  ])('with %s are refused, naming the place', (_what, message, path) => {
    expect(refusal({ messages: [...hello, message] })).toMatchObject({ status: 400, param: `messages${path}` });
  });

  it('that hold instructions only are refused', () => {
    expect(refusal({ messages: [{ role: 'system', content: 'x' }] }).param).toBe('messages');
  });
});

describe('the thinking of earlier turns', () => {
  const block = (n: number) => ({ type: 'thinking', thinking: `thought ${n}`, signature: `s${n}` });
  const extra = (...blocks: object[]) => ({ extra_content: { anthropic: { thinking_blocks: blocks } } });
  const assistant = (message: object) =>
    messagesOf([...hello, { role: 'assistant', ...message }, { role: 'tool', tool_call_id: 'a', content: 'x' }]);
  const thought = (message: object) => (assistant(message) as { content: JsonObject[] }[])[1]?.content;

  it('is sent back whole, before the calls that followed it', () => {
    const redacted = { type: 'redacted_thinking', data: 'xyz' };
    expect(thought({ content: 'Hm.', tool_calls: [call('a', '{}', extra(block(1), redacted))] })).toEqual([
      block(1),
      redacted,
      { type: 'text', text: 'Hm.' },
      { type: 'tool_use', id: 'a', name: 'get_weather', input: {} },
    ]);
  });

  it('is sent back once when it comes with the message and with the call', () => {
    const content = thought({ tool_calls: [call('a', '{}', extra(block(1)))], ...extra(block(1)) });
    expect(content?.map(({ type }) => type)).toEqual(['thinking', 'tool_use']);
  });

  it('is sent back at its place in the text and between the calls', () => {
    const content = thought({
      content: 'one two',
      tool_calls: [call('a', '{}', extra(block(1), { ...block(2), after_text: 4 })), call('b', '{}', extra(block(3)))],
      ...extra(block(1), { ...block(2), after_text: 4 }, block(3)),
    });
    expect(content).toEqual([
      block(1),
      { type: 'text', text: 'one ' },
      block(2),
      { type: 'text', text: 'two' },
      { type: 'tool_use', id: 'a', name: 'get_weather', input: {} },
      block(3),
      { type: 'tool_use', id: 'b', name: 'get_weather', input: {} },
    ]);
  });

  it('is left out when it is only text, or of another vendor', () => {
    const message = { content: 'x', reasoning_content: 'hm', extra_content: { google: { thought_signature: 'y' } } };
    expect(assistant(message)).toMatchObject([{}, { role: 'assistant', content: 'x' }, {}]);
  });
});

describe('tools', () => {
  const parameters = { type: 'object', properties: { city: { type: 'string' } } };
  const tool = { type: 'function', function: { name: 'f', description: 'd', parameters, strict: true } };

  it('become tools with an input schema; a foreign kind is unchanged', () => {
    const own = { type: 'web_search_20250305', name: 'web_search' };
    const bare = {
      type: 'function',
      function: { name: 'g', strict: false, parameters: null },
      cache_control: { type: 'ephemeral' },
    };
    expect(translated({ tools: [tool, bare, own] })['tools']).toEqual([
      { name: 'f', description: 'd', input_schema: parameters, strict: true },
      { name: 'g', input_schema: { type: 'object', properties: {} }, cache_control: { type: 'ephemeral' } },
      own,
    ]);
  });

  it.each<[unknown, unknown, object | undefined]>([
    [undefined, undefined, undefined],
    ['auto', undefined, { type: 'auto' }],
    ['none', false, { type: 'none' }],
    ['required', undefined, { type: 'any' }],
    [{ type: 'function', function: { name: 'f' } }, undefined, { type: 'tool', name: 'f' }],
    [{ type: 'any' }, undefined, { type: 'any' }],
    [undefined, false, { type: 'auto', disable_parallel_tool_use: true }],
    ['required', false, { type: 'any', disable_parallel_tool_use: true }],
  ])('with the choice %j and parallel calls %j', (tool_choice, parallel_tool_calls, expected) => {
    expect(translated({ tools: [tool], tool_choice, parallel_tool_calls })['tool_choice']).toEqual(expected);
  });

  it('are narrowed to those allowed', () => {
    const other = { type: 'function', function: { name: 'g' } };
    const tool_choice = {
      type: 'allowed_tools',
      allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'g' } }] },
    };
    const body = translated({ tools: [tool, other], tool_choice });
    expect(body).toMatchObject({ tools: [{ name: 'g' }], tool_choice: { type: 'any' } });
    expect(body['tools']).toHaveLength(1);
  });

  it('that are empty need no choice, unless one is demanded', () => {
    expect(translated({ tools: [], tool_choice: 'auto', parallel_tool_calls: false })).not.toHaveProperty(
      'tool_choice',
    );
    expect(refusal({ tool_choice: 'required' }).param).toBe('tool_choice');
  });

  it.each<[object, string]>([
    [{ tools: [{ type: 'custom', custom: { name: 'f' } }] }, 'tools[0].type'],
    [{ tools: [{ type: 'function' }] }, 'tools[0].function'],
    [{ tools: ['f'] }, 'tools[0]'],
    [{ tools: 'f' }, 'tools'],
    [{ tools: [tool], tool_choice: 'sometimes' }, 'tool_choice'],
  ])('%j is refused', (chat, param) => {
    expect(refusal({ ...chat }).param).toBe(param);
  });
});

describe('thinking', () => {
  const adaptive = { type: 'adaptive', display: 'summarized' };

  it.each([
    ['claude-sonnet-5', 'minimal', 'low'],
    ['claude-opus-5-5', 'xhigh', 'xhigh'],
    ['claude-mythos-preview', 'max', 'max'],
    ['claude-opus-4-6', 'max', 'max'],
    ['claude-opus-4-6', 'xhigh', 'high'],
    ['anthropic/claude-sonnet-4-6', 'max', 'high'],
    ['claude-opus-4-10', 'medium', 'medium'],
  ])('%s gets an effort: %s becomes %s', (model, reasoning_effort, effort) => {
    expect(translated({ reasoning_effort }, { model })).toMatchObject({
      thinking: adaptive,
      output_config: { effort },
    });
  });

  it.each([
    ['claude-haiku-4-5-20251001', 'minimal', 1024],
    ['claude-sonnet-4-20250514', 'low', 5000],
    ['claude-3-7-sonnet-20250219', 'medium', 10_000],
    ['claude-opus-4-5@20251101', 'high', 20_000],
    ['some-other-model', 'max', 30_000],
  ])('%s gets a budget for %s, on top of the default limit', (model, effort, budget) => {
    const body = translated({ reasoning: { effort, summary: 'auto' } }, { model });
    expect(body).toMatchObject({ thinking: { type: 'enabled', budget_tokens: budget }, max_tokens: 4096 + budget });
    expect(body).not.toHaveProperty('output_config');
    expect(body).not.toHaveProperty('reasoning');
  });

  it('takes at most half of a limit that the client sets', () => {
    const body = translated({ reasoning_effort: 'high', max_completion_tokens: 6000 }, older);
    expect(body).toMatchObject({ max_tokens: 6000, thinking: { budget_tokens: 3000 } });
    expect(translated({ reasoning_effort: 'high', max_tokens: 1025 }, older)).toMatchObject({
      thinking: { budget_tokens: 1024 },
    });
  });

  it.each(['claude-3-5-haiku-20241022', 'claude-3-haiku-20240307', 'claude-3-5-sonnet@20240620', 'claude-2.1'])(
    '%s cannot think: every level is lowered to none, and restricts nothing',
    (model) => {
      const forced = { tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'required' };
      for (const reasoning_effort of ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']) {
        const body = { temperature: 0.5, max_tokens: 100, ...forced };
        expect(translated({ ...body, reasoning_effort }, { model })).toEqual(translated(body, { model }));
        expect(translated({ reasoning: { effort: reasoning_effort } }, { model })).toEqual(translated({}, { model }));
      }
    },
  );

  it('is switched off by none', () => {
    expect(translated({ reasoning_effort: 'none' })['thinking']).toEqual({ type: 'disabled' });
  });

  it("in Anthropic's own form is unchanged", () => {
    const thinking = { type: 'enabled', budget_tokens: 2000 };
    const body = translated({ thinking, reasoning_effort: 'high', output_config: { effort: 'low' } });
    expect(body).toMatchObject({ thinking, output_config: { effort: 'low' }, max_tokens: 4096 });
  });

  it.each<[string, JsonObject, Partial<typeof facts>, string]>([
    ['another temperature', { reasoning_effort: 'low', temperature: 0.5 }, facts, 'temperature'],
    [
      'a forced tool',
      { reasoning_effort: 'low', tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'required' },
      older,
      'tool_choice',
    ],
    ['a limit too small', { reasoning_effort: 'low', max_tokens: 1024 }, older, 'max_tokens'],
    ['an unknown level', { reasoning_effort: 'very' }, facts, 'reasoning_effort'],
    ['an unknown level, of a model without thinking', { reasoning_effort: 'very' }, thoughtless, 'reasoning_effort'],
    ['an unknown level, nested', { reasoning: { effort: 'very' } }, facts, 'reasoning.effort'],
    ['a budget of its own', { reasoning: { max_tokens: 5 } }, facts, 'reasoning.max_tokens'],
  ])('with %s is refused', (_what, chat, given, param) => {
    expect(refusal(chat, given).param).toBe(param);
  });

  it('is left out on a budget when a tool turn continues and its thinking is lost', () => {
    const messages = [
      ...hello,
      { role: 'assistant', content: null, tool_calls: [call('a')] },
      { role: 'tool', tool_call_id: 'a', content: 'sunny' },
    ];
    expect(translated({ messages, reasoning_effort: 'low' }, older)).not.toHaveProperty('thinking');
    expect(translated({ messages, reasoning_effort: 'low' })).toHaveProperty('thinking');
    const kept = { anthropic: { thinking_blocks: [{ type: 'thinking', thinking: 'x', signature: 's' }] } };
    const whole = messages.with(1, {
      role: 'assistant',
      content: null,
      tool_calls: [call('a', '{}', { extra_content: kept })],
    });
    expect(translated({ messages: whole, reasoning_effort: 'low' }, older)).toHaveProperty('thinking');
  });
});

describe('settings', () => {
  it('are translated, and unknown ones kept', () => {
    expect(
      translated(
        {
          temperature: 0.5,
          top_p: 0.9,
          top_k: 5,
          stop: 'END',
          user: 'u1',
          service_tier: 'default',
          context_management: { edits: [] },
          cache_control: { type: 'ephemeral' },
          max_completion_tokens: 10,
          max_tokens: 20,
        },
        { stream: true },
      ),
    ).toEqual({
      model: 'claude-sonnet-4-6',
      max_tokens: 10,
      messages: hello,
      top_p: 0.9,
      top_k: 5,
      context_management: { edits: [] },
      cache_control: { type: 'ephemeral' },
      temperature: 0.5,
      stop_sequences: ['END'],
      service_tier: 'standard_only',
      metadata: { user_id: 'u1' },
      stream: true,
    });
  });

  it('that change nothing are not sent', () => {
    expect(
      translated({
        model: 'x',
        n: 1,
        logprobs: false,
        top_logprobs: 0,
        frequency_penalty: 0,
        presence_penalty: 0,
        logit_bias: {},
        seed: null,
        stop: null,
        modalities: ['text'],
        verbosity: 'medium',
        response_format: { type: 'text' },
        stream: false,
        stream_options: { include_usage: true },
        store: true,
        metadata: { a: 'b' },
        prompt_cache_key: 'k',
        parallel_tool_calls: true,
        tool_choice: 'none',
        reasoning_effort: null,
        temperature: null,
      }),
    ).toEqual({ model: 'claude-sonnet-4-6', max_tokens: 4096, messages: hello });
  });

  it.each<[string, unknown]>([
    ['n', 2],
    ['seed', 1],
    ['logprobs', true],
    ['top_logprobs', 2],
    ['logit_bias', { 50256: -100 }],
    ['frequency_penalty', 0.1],
    ['presence_penalty', -1],
    ['modalities', ['text', 'audio']],
    ['audio', { voice: 'alloy', format: 'mp3' }],
    ['prediction', { type: 'content', content: 'x' }],
    ['web_search_options', {}],
    ['verbosity', 'low'],
    ['functions', [{ name: 'f' }]],
    ['service_tier', 'flex'],
    ['temperature', 1.5],
    ['max_tokens', 0],
    ['max_completion_tokens', 'many'],
    ['response_format', { type: 'grammar' }],
    ['response_format', { type: 'json_schema' }],
  ])('refuse %s with the value %j, and name the member', (member, value) => {
    expect(refusal({ [member]: value })).toMatchObject({ status: 400, param: member });
  });

  it('hold the model to a schema', () => {
    const schema = { type: 'object', properties: {}, additionalProperties: false };
    const response_format = { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } };
    expect(translated({ response_format, reasoning_effort: 'low' })['output_config']).toEqual({
      effort: 'low',
      format: { type: 'json_schema', schema },
    });
  });

  const jsonObject = { response_format: { type: 'json_object' } };
  const answerTool = {
    name: 'gateway_json_answer',
    description: expect.stringContaining('JSON object'),
    input_schema: { type: 'object', properties: {}, additionalProperties: true },
  };
  const own = { name: 'f', input_schema: { type: 'object', properties: {} } };
  const given = { tools: [{ type: 'function', function: { name: 'f' } }] };

  it.each([
    ['without tools', {}, [answerTool], { type: 'tool', name: 'gateway_json_answer' }],
    ['with tools', given, [own, answerTool], { type: 'any' }],
    ['with tools and auto', { ...given, tool_choice: 'auto' }, [own, answerTool], { type: 'any' }],
    [
      'with one call at a time',
      { ...given, parallel_tool_calls: false },
      [own, answerTool],
      { type: 'any', disable_parallel_tool_use: true },
    ],
    [
      'with tools that may not be called',
      { ...given, tool_choice: 'none' },
      [own, answerTool],
      { type: 'tool', name: 'gateway_json_answer' },
    ],
    ['with a call that is demanded', { ...given, tool_choice: 'required' }, [own], { type: 'any' }],
  ])('let the model answer with a JSON object as the input of a tool, %s', (_when, members, tools, tool_choice) => {
    expect(translated({ ...jsonObject, ...members })).toMatchObject({ tools, tool_choice });
    expect(translated({ ...jsonObject, ...members })).not.toHaveProperty('output_config');
  });

  it.each([
    ['an effort', { reasoning_effort: 'low' }, facts],
    ['an effort of a model with a budget', { reasoning_effort: 'low' }, older],
    ['thinking', { thinking: { type: 'enabled', budget_tokens: 2000 } }, older],
  ])('refuse a JSON object beside %s, which Anthropic would refuse', (_what, members, of) => {
    expect(refusal({ ...jsonObject, ...members }, of)).toMatchObject({ status: 400, param: 'response_format' });
    expect(translated({ ...jsonObject, reasoning_effort: 'none' }, of)).toHaveProperty('tools');
  });

  it('refuse a tool with the name of the one for JSON answers', () => {
    const tools = [{ type: 'function', function: { name: 'gateway_json_answer' } }];
    expect(refusal({ tools })).toMatchObject({ status: 400, param: 'tools[0]' });
  });

  it.each([
    ['seed', 1],
    ['logit_bias', { 50256: -100 }],
    ['frequency_penalty', 0.1],
    ['presence_penalty', -1],
  ])('leave out %s where the provider is configured to ignore it', (member, value) => {
    const lenient = { options: { strictParameters: 'false' } };
    expect(translated({ [member]: value }, lenient)).toEqual(translated({}));
    expect(refusal({ [member]: value }, { options: { strictParameters: 'true' } })).toMatchObject({ param: member });
    expect(refusal({ n: 2 }, lenient)).toMatchObject({ param: 'n' });
  });

  it("take the provider's default limit", () => {
    expect(translated({}, { options: { defaultMaxTokens: '100' } })['max_tokens']).toBe(100);
  });
});
