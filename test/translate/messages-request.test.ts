import { describe, expect, it } from 'vitest';
import { anthropicMessages } from '../../src/providers/translate/messages-to-chat/message-object.ts';
import { chatRequestFromMessages } from '../../src/providers/translate/messages-to-chat/request.ts';
import { createMessageStreamTranslator } from '../../src/providers/translate/messages-to-chat/stream.ts';
import { plainReasoning, type ReasoningStyle } from '../../src/providers/translate/responses-to-chat/reasoning.ts';
import { addedUp, messageShell } from './message-shape.ts';

const hi = [{ role: 'user', content: 'hi' }];

function translate(body: object, reasoningStyle: ReasoningStyle = plainReasoning) {
  const request = { model: 'local/m1', max_tokens: 100, messages: hi, ...body };
  return chatRequestFromMessages(request, { model: 'm1', reasoningStyle });
}

function chatOf(body: object, style?: ReasoningStyle) {
  const result = translate(body, style);
  if (!result.ok) throw new Error(result.refusal.message);
  return result.body;
}

function refusalOf(body: object) {
  const result = translate(body);
  if (result.ok) throw new Error('it was translated');
  return result.refusal;
}

const messagesOf = (messages: unknown[], style?: ReasoningStyle) => chatOf({ messages }, style).messages;
const user = (...content: object[]) => ({ role: 'user', content });
const assistant = (...content: object[]) => ({ role: 'assistant', content });
const text = (said: string) => ({ type: 'text', text: said });

describe('results of tools in several messages of one turn', () => {
  it('stand behind the calls, before the text of the user', () => {
    const use = (id: string) => ({ type: 'tool_use', id, name: 'f', input: {} });
    const result = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: 'ok' });
    const turn = [user(result('a')), user(text('wait')), user(result('b'), text('go on'))];
    expect(messagesOf([...hi, assistant(use('a'), use('b')), ...turn])).toMatchObject([
      { role: 'user' },
      { role: 'assistant' },
      { role: 'tool', tool_call_id: 'a' },
      { role: 'tool', tool_call_id: 'b' },
      { role: 'user', content: [text('wait'), text('go on')] },
    ]);
  });
});

describe('the members of a Messages request', () => {
  it('are those of a chat request', () => {
    expect(
      chatOf({
        system: 'Be brief.',
        temperature: 0.5,
        top_p: 0.9,
        top_k: 40,
        stop_sequences: ['END'],
        metadata: { user_id: 'ann' },
        seed: 7,
      }),
    ).toEqual({
      model: 'm1',
      max_tokens: 100,
      messages: [{ role: 'system', content: 'Be brief.' }, ...hi],
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      stop: ['END'],
      user: 'ann',
      seed: 7,
    });
  });

  it('request usage on a stream', () => {
    expect(chatOf({ stream: true })).toMatchObject({ stream: true, stream_options: { include_usage: true } });
    expect(chatOf({ stream: false })).not.toHaveProperty('stream');
  });

  it('that are null or empty are not sent', () => {
    const nothing = { system: null, tools: [], stop_sequences: [], container: null, mcp_servers: [], metadata: {} };
    expect(chatOf({ ...nothing, temperature: null })).toEqual({ model: 'm1', max_tokens: 100, messages: hi });
  });

  it('that only affect Anthropic are not sent', () => {
    const hints = {
      betas: ['x'],
      cache_control: { type: 'ephemeral' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      compaction: { type: 'auto' },
      diagnostics: { previous_message_id: null },
      fallbacks: 'default',
      thread: null,
      service_tier: 'standard_only',
      provider: 'local',
      output_config: { task_budget: { type: 'tokens', total: 1000 } },
      speed: null,
    };
    expect(chatOf(hints)).toEqual({ model: 'm1', max_tokens: 100, messages: hi });
  });

  it('that only Anthropic supports are refused by name', () => {
    for (const [member, value] of [
      ['container', 'container_1'],
      ['mcp_servers', [{ type: 'url', url: 'https://example.com', name: 'x' }]],
      ['inference_geo', 'us'],
      ['speed', 'fast'],
      ['fallbacks', [{ model: 'claude-other' }]],
    ] as const) {
      expect(refusalOf({ [member]: value })).toMatchObject({
        status: 400,
        param: member,
        code: 'unsupported_parameter',
      });
    }
    expect(refusalOf({ output_config: { tone: 'grave' } })).toMatchObject({ param: 'output_config.tone' });
    for (const thread of [{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }]) {
      expect(refusalOf({ thread })).toMatchObject({ param: 'thread', code: 'thread_unsupported_request' });
    }
  });

  it('shorten a user id to the 64 characters that providers accept', () => {
    expect(chatOf({ metadata: { user_id: 'u'.repeat(64) } })['user']).toBe('u'.repeat(64));
    const long = JSON.stringify({ device_id: 'd'.repeat(64), session_id: '5f2b1c' });
    const hashed = chatOf({ metadata: { user_id: long } })['user'];
    expect(hashed).toMatch(/^[0-9a-f]{64}$/);
    expect(chatOf({ metadata: { user_id: long } })['user']).toBe(hashed);
  });

  it('hold the answer to a schema', () => {
    const schema = { type: 'object', properties: {} };
    const response_format = { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } };
    const format = { type: 'json_schema', schema };
    expect(chatOf({ output_config: { format } })).toMatchObject({ response_format });
    expect(chatOf({ output_format: format })).toMatchObject({ response_format });
    expect(refusalOf({ output_config: { format: { type: 'grammar' } } })).toMatchObject({
      param: 'output_config.format.type',
    });
  });

  it.each([
    [{}, undefined],
    [{ thinking: { type: 'disabled' } }, undefined],
    [{ thinking: { type: 'disabled' }, output_config: { effort: 'high' } }, undefined],
    [{ thinking: { type: 'enabled', budget_tokens: 1024 } }, 'low'],
    [{ thinking: { type: 'enabled', budget_tokens: 9999 } }, 'low'],
    [{ thinking: { type: 'enabled', budget_tokens: 10_000 } }, 'medium'],
    [{ thinking: { type: 'enabled', budget_tokens: 19_999 } }, 'medium'],
    [{ thinking: { type: 'enabled', budget_tokens: 20_000 } }, 'high'],
    [{ thinking: { type: 'adaptive' } }, 'medium'],
    [{ thinking: { type: 'adaptive' }, output_config: { effort: 'low' } }, 'low'],
    [{ output_config: { effort: 'max' } }, 'high'],
  ])('of %j select the effort %s', (members, effort) => {
    expect(chatOf(members)['reasoning_effort']).toBe(effort);
  });
});

describe('the system prompt', () => {
  it('may be blocks, which become paragraphs', () => {
    const system = [text('One.'), { ...text('Two.'), cache_control: { type: 'ephemeral' } }];
    expect(chatOf({ system }).messages[0]).toEqual({ role: 'system', content: 'One.\n\nTwo.' });
  });

  it('is given without the line that Claude Code addresses to Anthropic', () => {
    const system = [text('x-anthropic-billing-header: cc_version=2.1; cch=4f1a;'), text('You are helpful.')];
    expect(chatOf({ system }).messages[0]).toEqual({ role: 'system', content: 'You are helpful.' });
  });
});

describe('a system message among the others', () => {
  const note = { role: 'system', content: [text('Be grave.')] };
  const yes = { role: 'assistant', content: 'Yes.' };

  it('belongs to the system prompt until the assistant has spoken', () => {
    const grave = { role: 'system', content: 'Be brief.\n\nBe grave.' };
    expect(chatOf({ system: 'Be brief.', messages: [...hi, note] }).messages).toEqual([grave, ...hi]);
    expect(chatOf({ system: 'Be brief.', messages: [...hi, note, yes, ...hi] }).messages).toEqual([
      grave,
      ...hi,
      yes,
      ...hi,
    ]);
  });

  it('is in the turn of the user after that', () => {
    const said = text('<system>\nBe grave.\n</system>');
    expect(messagesOf([...hi, yes, ...hi, note])).toEqual([...hi, yes, user(text('hi'), said)]);
    expect(messagesOf([...hi, yes, note, yes])).toEqual([...hi, yes, { role: 'user', content: said.text }, yes]);
  });

  it('is left out when it was to be cleared at the next turn', () => {
    const passing = { ...note, clear_at: 'next_user_message' };
    expect(messagesOf([...hi, passing])).toHaveLength(2);
    expect(messagesOf([...hi, passing, yes, ...hi])).toEqual([...hi, yes, ...hi]);
  });

  it('cannot steer the output', () => {
    const steering = [...hi, { role: 'system', output_config: { effort: 'low' } }];
    expect(refusalOf({ messages: steering })).toMatchObject({ param: 'messages[1].output_config' });
    expect(messagesOf([...hi, { role: 'system', output_config: {} }])).toEqual(hi);
  });
});

describe('a message of the user', () => {
  it('is a string when it is one text', () => {
    expect(messagesOf([user({ ...text('hi'), cache_control: { type: 'ephemeral' } })])).toEqual(hi);
  });

  it('is made one with its neighbours', () => {
    expect(messagesOf([...hi, user(text('there'))])).toEqual([user(text('hi'), text('there'))]);
  });

  it('may hold images', () => {
    const data = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
    const address = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } };
    expect(messagesOf([user(text('look'), data, address)])).toEqual([
      user(
        text('look'),
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
      ),
    ]);
  });

  it('may hold documents and search results', () => {
    const pdf = {
      type: 'document',
      title: 'a.pdf',
      source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
    };
    const plain = { type: 'document', title: 'Notes', context: 'Of 1984', source: { type: 'text', data: 'Long ago.' } };
    const parts = { type: 'document', source: { type: 'content', content: [text('One.'), text('Two.')] } };
    const found = { type: 'search_result', title: 'T', source: 'https://example.com', content: [text('Found.')] };
    expect(messagesOf([user(pdf, plain, parts, found)])).toEqual([
      user(
        { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBE' } },
        text('Notes\nOf 1984\n\nLong ago.'),
        text('One.'),
        text('Two.'),
        text('T\nhttps://example.com\n\nFound.'),
      ),
    ]);
  });

  it.each([
    [{ type: 'image', source: { type: 'file', file_id: 'f' } }, 'messages[0].content[0].source'],
    [{ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } }, 'messages[0].content[0].source'],
    [{ type: 'document', citations: { enabled: true }, source: {} }, 'messages[0].content[0].citations'],
    [{ type: 'container_upload', file_id: 'f' }, 'messages[0].content[0].type'],
    [{ type: 'tool_result', content: 'x' }, 'messages[0].content[0].tool_use_id'],
    [{ type: 'tool_addition', tool: {} }, 'messages[0].content[0].type'],
  ])('that chat cannot express is refused, naming its place: %j', (block, param) => {
    expect(translate({ messages: [user(block)] })).toMatchObject({ ok: false, refusal: { status: 400, param } });
  });
});

describe('a tool loop', () => {
  const requestBody = assistant(
    text('Let me look.'),
    { type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: 'sky' } },
    { type: 'tool_use', id: 'toolu_2', name: 'now', input: {}, extra_content: { google: { thought_signature: 'x' } } },
  );

  it('is calls of the assistant, followed by tool messages before any other message', () => {
    const answered = user(
      text('Go on.'),
      { type: 'tool_result', tool_use_id: 'toolu_1', content: [text('blue'), text('and wide')] },
      { type: 'tool_result', tool_use_id: 'toolu_2', content: 'no clock', is_error: true },
    );
    expect(messagesOf([...hi, requestBody, answered])).toEqual([
      ...hi,
      {
        role: 'assistant',
        content: 'Let me look.',
        tool_calls: [
          { id: 'toolu_1', type: 'function', function: { name: 'look', arguments: '{"at":"sky"}' } },
          {
            id: 'toolu_2',
            type: 'function',
            function: { name: 'now', arguments: '{}' },
            extra_content: { google: { thought_signature: 'x' } },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'toolu_1', content: 'blue\nand wide' },
      { role: 'tool', tool_call_id: 'toolu_2', content: 'The tool failed: no clock' },
      { role: 'user', content: 'Go on.' },
    ]);
  });

  it('shows images that a tool returned in the message after the results', () => {
    const image = { type: 'image', source: { type: 'url', url: 'https://example.com/sky.png' } };
    const answered = user(
      { type: 'tool_result', tool_use_id: 'toolu_1', content: [image] },
      { type: 'tool_result', tool_use_id: 'toolu_2' },
    );
    expect(messagesOf([...hi, requestBody, answered]).slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'toolu_1', content: 'The result follows in the next user message.' },
      { role: 'tool', tool_call_id: 'toolu_2', content: '' },
      user(text('Result of tool call toolu_1:'), {
        type: 'image_url',
        image_url: { url: 'https://example.com/sky.png' },
      }),
    ]);
  });

  it('leaves out the records of tools that Anthropic ran', () => {
    const ran = assistant(
      { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
      { type: 'web_search_tool_result', tool_use_id: 's', content: [] },
      text('It rains.'),
    );
    expect(messagesOf([...hi, ran])[1]).toEqual({ role: 'assistant', content: 'It rains.' });
  });
});

describe('the thinking of earlier turns', () => {
  const thought = [
    { type: 'thinking', thinking: 'Hm.', signature: 'sig' },
    { type: 'redacted_thinking', data: 'secret' },
  ];

  it('is sent back in the member that the provider reads, or not at all', () => {
    const messages = [...hi, assistant(...thought, text('Yes.')), ...hi];
    expect(messagesOf(messages)[1]).toEqual({ role: 'assistant', content: 'Yes.', reasoning_content: 'Hm.' });
    expect(messagesOf(messages, { ...plainReasoning, replay: 'omit' })[1]).toEqual({
      role: 'assistant',
      content: 'Yes.',
    });
  });

  it('is sent back although the client did not receive it', () => {
    const translator = createMessageStreamTranslator(messageShell({ thoughts: 'sealed' }));
    const delta = { reasoning_content: 'Hm.', content: 'Yes.' };
    const events = [
      ...translator.push({ choices: [{ index: 0, delta, finish_reason: 'stop' }] }),
      ...translator.finish(),
    ];
    const { role, content } = addedUp(events);
    expect(messagesOf([...hi, { role, content }])[1]).toMatchObject({ content: 'Yes.', reasoning_content: 'Hm.' });
  });

  it('without a signature of Anthropic is not sent to Anthropic; everything else is', () => {
    const translator = createMessageStreamTranslator(messageShell());
    const extra_content = { google: {} };
    const delta = {
      reasoning_content: 'Hm.',
      content: 'Yes.',
      tool_calls: [{ id: 'a', extra_content, function: { name: 'f', arguments: '{}' } }],
    };
    const events = [...translator.push({ choices: [{ index: 0, delta }] }), ...translator.finish()];
    const { role, content } = addedUp(events);
    expect(anthropicMessages([...hi, { role, content }])).toEqual([
      ...hi,
      assistant(text('Yes.'), { type: 'tool_use', id: 'a', name: 'f', input: {} }),
    ]);
    expect(anthropicMessages([...hi, assistant(...thought, text('Yes.'))])).toBeUndefined();
  });
});

describe('a message of the assistant at the end', () => {
  it('is the beginning of the answer, unchanged', () => {
    expect(messagesOf([...hi, { role: 'assistant', content: 'The answer is (' }])[1]).toEqual({
      role: 'assistant',
      content: 'The answer is (',
    });
  });
});

describe('tools', () => {
  const input_schema = { type: 'object', properties: { at: { type: 'string' } } };
  const look = { name: 'look', description: 'Looks.', input_schema, cache_control: { type: 'ephemeral' } };
  const tools = [look, { type: 'custom', name: 'now', input_schema, strict: true, defer_loading: true }];
  const functions = [
    { type: 'function', function: { name: 'look', description: 'Looks.', parameters: input_schema } },
    { type: 'function', function: { name: 'now', parameters: input_schema, strict: true } },
  ];

  it('are functions', () => {
    expect(chatOf({ tools })).toMatchObject({ tools: functions });
    expect(chatOf({ tools })).not.toHaveProperty('tool_choice');
  });

  it.each([
    [{ type: 'auto' }, { tool_choice: 'auto' }],
    [{ type: 'none' }, { tool_choice: 'none' }],
    [{ type: 'any' }, { tool_choice: 'required' }],
    [{ type: 'tool', name: 'now' }, { tool_choice: { type: 'function', function: { name: 'now' } } }],
    [
      { type: 'auto', disable_parallel_tool_use: true },
      { tool_choice: 'auto', parallel_tool_calls: false },
    ],
    [{ type: 'any', disable_parallel_tool_use: false }, { tool_choice: 'required' }],
  ])('are chosen from as %j', (tool_choice, members) => {
    const { model: _m, messages: _ms, max_tokens: _t, ...rest } = chatOf({ tools, tool_choice });
    expect(rest).toEqual({ tools: functions, ...members });
  });

  it('need not be there for a choice that demands none', () => {
    expect(chatOf({ tool_choice: { type: 'auto' } })).toEqual({ model: 'm1', max_tokens: 100, messages: hi });
  });

  it.each([
    [{ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'tools[0].type', /web_search_20250305/],
    [{ tools: [look, { type: 'bash_20250124', name: 'bash' }] }, 'tools[1].type', /bash_20250124/],
    [{ tools: [{ input_schema }] }, 'tools[0].name', /name/],
    [{ tools, tool_choice: { type: 'tool', name: 'listen' } }, 'tool_choice.name', /listen/],
    [{ tools, tool_choice: { type: 'often' } }, 'tool_choice.type', /often/],
    [{ tool_choice: { type: 'any' } }, 'tool_choice', /any/],
  ])('that no chat provider can offer are refused: %j', (members, param, message) => {
    expect(refusalOf(members)).toMatchObject({ status: 400, param, message: expect.stringMatching(message) });
  });
});
