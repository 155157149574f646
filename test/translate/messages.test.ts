import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chatMessages } from '../../src/providers/translate/responses-to-chat/items-to-chat-messages.ts';
import { plainReasoning } from '../../src/providers/translate/responses-to-chat/reasoning.ts';

function messages(input: unknown, style = plainReasoning) {
  const result = chatMessages({ input }, style);
  if (!result.ok) throw new Error(result.refusal.message);
  return result.messages;
}

function refusal(input: unknown) {
  const result = chatMessages({ input }, plainReasoning);
  if (result.ok) throw new Error(`was accepted: ${JSON.stringify(result.messages)}`);
  return result.refusal;
}

const call = (callId: string, name = 'f', more = {}) => ({
  type: 'function_call',
  id: `fc_${callId}`,
  status: 'completed',
  call_id: callId,
  name,
  arguments: '{"a":1}',
  ...more,
});
const output = (callId: string, text: unknown = 'ok') => ({
  type: 'function_call_output',
  call_id: callId,
  output: text,
});
const chatCall = (id: string, name = 'f', args = '{"a":1}') => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});
const user = { role: 'user', content: 'hi' };
const reasoning = (text: string) => ({ type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text }] });

describe('outputs of tools', () => {
  const calling = { role: 'assistant', content: null, tool_calls: [chatCall('a'), chatCall('b')] };
  const tool = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'ok' });

  it('stand directly behind their calls, before messages that came in between', () => {
    expect(messages([call('a'), call('b'), output('a'), user, output('b')])).toEqual([
      calling,
      tool('a'),
      tool('b'),
      user,
    ]);
    expect(messages([user, call('a'), call('b'), user, output('b'), output('a')])).toEqual([
      user,
      calling,
      tool('b'),
      tool('a'),
      user,
    ]);
    const said = { role: 'assistant', content: 'One moment.' };
    expect(messages([call('a'), output('x'), said, output('a')])).toEqual([
      { ...calling, tool_calls: [chatCall('a')] },
      tool('a'),
      tool('x'),
      said,
    ]);
  });

  it('go to the newest call of their id', () => {
    const once = { ...calling, tool_calls: [chatCall('a')] };
    expect(messages([call('a'), output('a'), user, call('a'), user, output('a')])).toEqual([
      once,
      tool('a'),
      user,
      once,
      tool('a'),
      user,
    ]);
  });

  it('stand before the images that came with them', () => {
    const image = [{ type: 'input_image', image_url: 'data:image/png;base64,AA==' }];
    const placed = messages([call('a'), call('b'), output('a', image), user, output('b')]);
    expect(placed.map(({ role }) => role)).toEqual(['assistant', 'tool', 'tool', 'user', 'user']);
  });

  it('stand behind their calls and change nothing else, in any order of items', () => {
    const ids = ['a', 'b', 'c'];
    const item = fc.oneof(
      fc.constantFrom(...ids).map((id) => call(id)),
      fc.constantFrom(...ids).map((id) => output(id)),
      fc.constant(user),
    );
    fc.assert(
      fc.property(fc.array(item, { minLength: 1 }), (items) => {
        const placed = messages(items);
        const called = new Set<unknown>();
        let behind: unknown[] = [];
        for (const { role, tool_calls: calls, tool_call_id: id } of placed) {
          if (role !== 'tool') behind = (calls ?? []).map((made) => made['id']);
          else if (called.has(id)) expect(behind).toContain(id);
          for (const made of calls ?? []) called.add(made['id']);
        }
        const outputs = items.filter((one) => 'output' in one).length;
        expect(placed.filter(({ role }) => role === 'tool')).toHaveLength(outputs);
        expect(placed.filter(({ role }) => role === 'user')).toHaveLength(items.filter((one) => one === user).length);
      }),
    );
  });
});

describe('messages', () => {
  it.each([
    ['user', 'user'],
    ['system', 'system'],
    ['developer', 'system'],
    ['assistant', 'assistant'],
  ])('of role %s become %s', (role, expected) => {
    expect(messages([{ type: 'message', role, content: 'hi' }])).toEqual([{ role: expected, content: 'hi' }]);
  });

  it('may lack a type, or have an empty one', () => {
    expect(
      messages([
        { role: 'user', content: 'hi' },
        { type: '', role: 'user', content: 'ho' },
      ]),
    ).toEqual([
      { role: 'user', content: 'hi' },
      { role: 'user', content: 'ho' },
    ]);
  });

  it('lose what the gateway stores about them, and nothing else', () => {
    const given = { id: 'msg_1', status: 'completed', phase: 'commentary', name: 'Ada', role: 'user', content: 'hi' };
    expect(messages([given])).toEqual([{ role: 'user', content: 'hi', name: 'Ada' }]);
  });

  it.each([
    ['one text', 'user', [{ type: 'input_text', text: 'hi' }], 'hi'],
    ['plain text type', 'user', [{ type: 'text', text: 'hi' }], 'hi'],
    [
      'several texts of a user',
      'user',
      [
        { type: 'input_text', text: 'a' },
        { type: 'input_text', text: 'b' },
      ],
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    ],
    [
      'several texts of the assistant',
      'assistant',
      [
        { type: 'output_text', text: 'a', annotations: [], logprobs: [] },
        { type: 'output_text', text: 'b', annotations: [] },
      ],
      'ab',
    ],
    ['a refusal', 'assistant', [{ type: 'refusal', refusal: 'No.' }], 'No.'],
    [
      'an image by address',
      'user',
      [{ type: 'input_image', image_url: 'data:image/png;base64,AA', detail: 'low' }],
      [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA', detail: 'low' } }],
    ],
    [
      'an image as an object',
      'user',
      [{ type: 'input_image', image_url: { url: 'https://x/y.png', detail: 'high', media_type: 'image/png' } }],
      [{ type: 'image_url', image_url: { url: 'https://x/y.png', detail: 'high', media_type: 'image/png' } }],
    ],
    [
      'an image in chat form',
      'user',
      [{ type: 'image_url', image_url: { url: 'https://x/y.png' } }],
      [{ type: 'image_url', image_url: { url: 'https://x/y.png' } }],
    ],
    [
      'audio',
      'user',
      [{ type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }],
      [{ type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }],
    ],
    [
      'a file, flat',
      'user',
      [{ type: 'input_file', filename: 'a.pdf', file_data: 'AA', file_id: null }],
      [{ type: 'file', file: { filename: 'a.pdf', file_data: 'AA' } }],
    ],
    [
      'a file, nested',
      'user',
      [{ type: 'file', file: { file_id: 'file_1' } }],
      [{ type: 'file', file: { file_id: 'file_1' } }],
    ],
    [
      'a part that only some servers know',
      'user',
      [{ type: 'video_url', video_url: { url: 'https://x/y.mp4' } }],
      [{ type: 'video_url', video_url: { url: 'https://x/y.mp4' } }],
    ],
    [
      'a text with a vendor’s mark on it',
      'user',
      [{ type: 'input_text', text: 'hi', cache_control: { type: 'ephemeral' } }],
      [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }],
    ],
    ['no parts', 'user', [], ''],
    ['no content', 'user', null, ''],
  ])('have their parts translated: %s', (_name, role, content, expected) => {
    expect(messages([{ role, content }])).toEqual([{ role, content: expected }]);
  });

  it('with an image that only has a file id are refused', () => {
    expect(refusal([{ role: 'user', content: [{ type: 'input_image', file_id: 'file_1' }] }])).toMatchObject({
      status: 400,
      param: 'input[0].content[0].image_url',
    });
  });
});

describe('tool calls', () => {
  it('made together are one assistant message', () => {
    expect(messages([user, call('1'), call('2', 'g'), output('1'), output('2', 'fine')])).toEqual([
      user,
      { role: 'assistant', content: null, tool_calls: [chatCall('1'), chatCall('2', 'g')] },
      { role: 'tool', tool_call_id: '1', content: 'ok' },
      { role: 'tool', tool_call_id: '2', content: 'fine' },
    ]);
  });

  it('join the assistant message before them', () => {
    expect(messages([user, { role: 'assistant', content: 'Let me see.' }, call('1')])).toEqual([
      user,
      { role: 'assistant', content: 'Let me see.', tool_calls: [chatCall('1')] },
    ]);
  });

  it('make the content of an assistant message without text null', () => {
    expect(messages([{ role: 'assistant', content: [] }, call('1')])).toEqual([
      { role: 'assistant', content: null, tool_calls: [chatCall('1')] },
    ]);
  });

  it('keep text that comes between a call and its output in the same message', () => {
    expect(messages([user, call('1'), { role: 'assistant', content: 'One moment.' }, output('1')])).toEqual([
      user,
      { role: 'assistant', content: 'One moment.', tool_calls: [chatCall('1')] },
      { role: 'tool', tool_call_id: '1', content: 'ok' },
    ]);
  });

  it('made one after the other stay apart', () => {
    const roles = messages([user, call('1'), output('1'), call('2'), output('2')]).map((message) => message.role);
    expect(roles).toEqual(['user', 'assistant', 'tool', 'assistant', 'tool']);
  });

  it('of custom tools carry their input as JSON', () => {
    const items = [
      { type: 'custom_tool_call', call_id: '1', name: 'patch', input: 'say "hi"' },
      { type: 'custom_tool_call_output', call_id: '1', output: 'done' },
    ];
    expect(messages(items)).toEqual([
      { role: 'assistant', content: null, tool_calls: [chatCall('1', 'patch', '{"input":"say \\"hi\\""}')] },
      { role: 'tool', tool_call_id: '1', content: 'done' },
    ]);
  });

  it('in a namespace have its name in front, as the tool has', () => {
    expect(messages([call('1', 'spawn', { namespace: 'agents' })])[0]?.tool_calls).toEqual([
      chatCall('1', 'agents__spawn'),
    ]);
  });

  it('send the extra content of a call back to its vendor', () => {
    const extra = { google: { thought_signature: 'x' } };
    expect(messages([call('1', 'f', { extra_content: extra })])[0]?.tool_calls).toEqual([
      { ...chatCall('1'), extra_content: extra },
    ]);
  });

  it('leave out the extra content where it would be refused', () => {
    const extra_content = { google: { thought_signature: 'c2ln' } };
    const items = [
      { role: 'assistant', content: 'Hm.', extra_content },
      call('1', 'f', { extra_content }),
      output('1'),
    ];
    expect(JSON.stringify(messages(items))).toContain('c2ln');
    expect(JSON.stringify(messages(items, { ...plainReasoning, extraContent: 'omit' }))).not.toContain('c2ln');
  });

  it('with arguments as an object have them as JSON text', () => {
    expect(messages([call('1', 'f', { arguments: { a: 1 } })])[0]?.tool_calls).toEqual([chatCall('1')]);
  });

  it('without arguments have empty ones', () => {
    expect(messages([call('1', 'f', { arguments: '' })])[0]?.tool_calls).toEqual([chatCall('1', 'f', '{}')]);
  });

  it.each([
    ['name', [{ type: 'function_call', call_id: '1', arguments: '{}' }], 'input[0].name'],
    ['call_id', [user, { type: 'function_call', name: 'f', arguments: '{}' }], 'input[1].call_id'],
    ['call_id of an output', [{ type: 'function_call_output', output: 'x' }], 'input[0].call_id'],
  ])('without %s are refused', (_name, items, param) => {
    expect(refusal(items)).toMatchObject({ status: 400, code: 'missing_required_parameter', param });
  });
});

describe('tool outputs', () => {
  it.each([
    ['text', 'sunny', 'sunny'],
    ['nothing', null, ''],
    [
      'text parts',
      [
        { type: 'input_text', text: 'a' },
        { type: 'output_text', text: 'b' },
      ],
      'a\nb',
    ],
    ['an object', { temperature: 21 }, '{"temperature":21}'],
  ])('that are %s', (_name, given, content) => {
    expect(messages([call('1'), output('1', given)])[1]).toEqual({ role: 'tool', tool_call_id: '1', content });
  });

  it('with images put them into a user message after the last tool message of the turn', () => {
    const image = { type: 'input_image', image_url: 'data:image/png;base64,AA' };
    const given = [
      call('1'),
      call('2'),
      output('1', [{ type: 'input_text', text: 'Map:' }, image]),
      output('2', [image]),
    ];
    const sent = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } };
    expect(messages([...given, user]).slice(1)).toEqual([
      { role: 'tool', tool_call_id: '1', content: 'Map:' },
      { role: 'tool', tool_call_id: '2', content: 'The output follows in the next user message.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Output of tool call 1:' },
          sent,
          { type: 'text', text: 'Output of tool call 2:' },
          sent,
        ],
      },
      user,
    ]);
    expect(messages(given).at(-1)?.role).toBe('user');
  });
});

describe('reasoning', () => {
  it('is on the assistant message that follows', () => {
    expect(messages([user, reasoning('Hm.'), { role: 'assistant', content: 'Yes.' }])[1]).toEqual({
      role: 'assistant',
      content: 'Yes.',
      reasoning_content: 'Hm.',
    });
  });

  it('is on the tool call that follows', () => {
    expect(messages([user, reasoning('Hm.'), call('1')])[1]).toMatchObject({ reasoning_content: 'Hm.' });
  });

  it('is the raw text rather than the summary, when there is both', () => {
    const item = { ...reasoning('short'), content: [{ type: 'reasoning_text', text: 'long' }] };
    expect(messages([item, { role: 'assistant', content: 'Yes.' }])[0]).toMatchObject({ reasoning_content: 'long' });
  });

  it('is dropped when it is encrypted, before a user message or a tool output, and for providers that refuse it', () => {
    const encrypted = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' };
    const said = { role: 'assistant', content: 'Yes.' };
    expect(messages([encrypted, said])).toEqual([said]);
    expect(messages([reasoning('Hm.'), user, said])).toEqual([user, said]);
    expect(messages([call('1'), reasoning('Hm.'), output('1'), said]).at(-1)).toEqual(said);
    expect(messages([reasoning('Hm.'), said], { ...plainReasoning, replay: 'omit' })).toEqual([said]);
  });

  it('has the member name of the provider', () => {
    const said = { role: 'assistant', content: 'Yes.' };
    expect(messages([reasoning('Hm.'), said], { ...plainReasoning, replay: 'reasoning' })).toEqual([
      { ...said, reasoning: 'Hm.' },
    ]);
  });
});

describe('other items', () => {
  it.each([
    'web_search_call',
    'file_search_call',
    'code_interpreter_call',
    'image_generation_call',
    'mcp_call',
    'mcp_list_tools',
    'mcp_approval_request',
    'tool_search_call',
    'tool_search_output',
  ])('of type %s are records of hosted tools, and dropped', (type) => {
    expect(messages([user, { type, id: 'x' }])).toEqual([user]);
  });

  it.each([
    'computer_call',
    'computer_call_output',
    'local_shell_call',
    'shell_call_output',
    'apply_patch_call',
    'compaction',
    'compaction_trigger',
    'additional_tools',
    'configuration_update',
    'program',
    'something_new',
  ])('of type %s are refused', (type) => {
    expect(refusal([user, { type }])).toMatchObject({
      status: 400,
      code: 'unsupported_value',
      param: 'input[1].type',
      message: expect.stringContaining(type),
    });
  });

  it('that are an approval are dropped once they led to a result, and refused until then', () => {
    const approval = { type: 'mcp_approval_response', approval_request_id: 'x', approve: true };
    const said = { role: 'assistant', content: 'Done.' };
    expect(messages([user, approval, { type: 'mcp_call', id: 'm' }])).toEqual([user]);
    expect(messages([user, approval, said])).toEqual([user, said]);
    expect(refusal([user, approval])).toMatchObject({ status: 400, param: 'input[1].type' });
  });

  it('that are a search for tools by the client are refused: the tools it found are not in the request', () => {
    expect(refusal([user, { type: 'tool_search_output', execution: 'client', tools: [] }])).toMatchObject({
      status: 400,
      param: 'input[1].type',
    });
  });

  it.each([
    ['with a type', { type: 'item_reference', id: 'msg_9' }],
    ['without one', { id: 'msg_9' }],
    ['with none', { type: null, id: 'msg_9' }],
  ])('that are unresolved references %s are not found', (_what, item) => {
    expect(refusal([item])).toEqual({
      status: 404,
      code: 'item_not_found',
      param: 'input[0].id',
      message: "Item 'msg_9' was not found.",
    });
  });
});
