import { describe, expect, it } from 'vitest';
import {
  chatToolName,
  chatTools,
  toolIdentities,
  withoutUnsupportedTools,
} from '../../src/providers/translate/responses-to-chat/tools.ts';

const weather = { type: 'function', name: 'get_weather', description: 'Weather', parameters: { type: 'object' } };
const chatWeather = {
  type: 'function',
  function: { name: 'get_weather', description: 'Weather', parameters: { type: 'object' } },
};
const time = { type: 'function', name: 'get_time', parameters: { type: 'object' }, strict: true };
const chatTime = { type: 'function', function: { name: 'get_time', parameters: { type: 'object' }, strict: true } };
const webSearch = { type: 'web_search', search_context_size: 'low' };
const agents = {
  type: 'namespace',
  name: 'agents',
  description: 'Agents',
  tools: [{ type: 'function', name: 'spawn' }],
};

function members(body: Record<string, unknown>) {
  const result = chatTools(body);
  if (!result.ok) throw new Error(result.refusal.message);
  return result.members;
}

describe('tools in chat form', () => {
  it('nest the function, and leave out null members', () => {
    expect(members({ tools: [{ ...weather, strict: null }, time] })).toEqual({ tools: [chatWeather, chatTime] });
  });

  it('may come nested already', () => {
    expect(members({ tools: [chatWeather] })).toEqual({ tools: [chatWeather] });
  });

  it('keep members that a vendor put beside the function, but not those for OpenAI’s tool search', () => {
    const tool = { ...time, cache_control: { type: 'ephemeral' }, defer_loading: true };
    expect(members({ tools: [tool] })).toEqual({ tools: [{ ...chatTime, cache_control: { type: 'ephemeral' } }] });
  });

  it('have a namespace in front of the name', () => {
    expect(members({ tools: [agents] })).toEqual({
      tools: [{ type: 'function', function: { name: 'agents__spawn' } }],
    });
  });

  it('turn a custom tool into a function with one string, and put its grammar into the description', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' };
    const sent = members({ tools: [{ type: 'custom', name: 'patch', description: 'Patches.', format }] });
    expect(sent).toMatchObject({
      tools: [
        {
          type: 'function',
          function: {
            name: 'patch',
            description: 'Patches.\n\nThe input must match this lark grammar:\nstart: "x"',
            parameters: { properties: { input: { type: 'string' } }, required: ['input'] },
          },
        },
      ],
    });
  });

  it('are sent without the others where these may be dropped, and with the last tool goes the choice among them', () => {
    const dropped = (body: Record<string, unknown>) => members(withoutUnsupportedTools(body));
    expect(dropped({ tools: [weather, webSearch] })).toEqual({ tools: [chatWeather] });
    expect(dropped({ tools: [webSearch], tool_choice: 'auto', parallel_tool_calls: true })).toEqual({});
    const inside = { ...agents, tools: [...agents.tools, webSearch] };
    expect(dropped({ tools: [inside] })).toEqual(members({ tools: [agents] }));
  });

  it.each(['auto', 'none', 'required'])('keep the choice %s', (choice) => {
    expect(members({ tools: [weather], tool_choice: choice })).toEqual({ tools: [chatWeather], tool_choice: choice });
  });

  it('keep parallel_tool_calls', () => {
    expect(members({ tools: [weather], parallel_tool_calls: false })).toMatchObject({ parallel_tool_calls: false });
  });

  it.each([
    ['a function', { type: 'function', name: 'get_weather' }, 'get_weather'],
    ['a function in chat form', { type: 'function', function: { name: 'get_weather' } }, 'get_weather'],
    ['a function in a namespace', { type: 'function', name: 'spawn', namespace: 'agents' }, 'agents__spawn'],
    ['a custom tool', { type: 'custom', name: 'patch' }, 'patch'],
  ])('name the selected tool: %s', (_name, choice, name) => {
    const tools = [weather, agents, { type: 'custom', name: 'patch' }];
    expect(members({ tools, tool_choice: choice })['tool_choice']).toEqual({ type: 'function', function: { name } });
  });

  it('name the tool of the chosen namespace, where two have a tool of that name', () => {
    const others = { ...agents, name: 'others' };
    const choice = { type: 'function', name: 'spawn', namespace: 'others' };
    expect(members({ tools: [agents, others], tool_choice: choice })['tool_choice']).toEqual({
      type: 'function',
      function: { name: 'others__spawn' },
    });
  });

  it('are only the allowed ones, when the choice lists them', () => {
    const choice = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'get_time' }] };
    expect(members({ tools: [weather, time], tool_choice: choice })).toEqual({
      tools: [chatTime],
      tool_choice: 'required',
    });
  });

  it('are only the allowed ones also when the list is nested as in chat, or names a namespace', () => {
    const nested = { type: 'allowed_tools', allowed_tools: { tools: [{ type: 'function', name: 'get_time' }] } };
    expect(members({ tools: [weather, time], tool_choice: nested })).toEqual({
      tools: [chatTime],
      tool_choice: 'auto',
    });
    const namespaced = { type: 'allowed_tools', tools: [{ type: 'namespace', name: 'agents' }] };
    expect(members({ tools: [weather, agents], tool_choice: namespaced })).toMatchObject({
      tools: [{ function: { name: 'agents__spawn' } }],
    });
  });

  it('are none, when only a dropped one is allowed and the choice is auto', () => {
    const choice = { type: 'allowed_tools', mode: 'auto', tools: [webSearch] };
    expect(members(withoutUnsupportedTools({ tools: [weather, webSearch], tool_choice: choice }))).toEqual({});
  });
});

describe('a tool that only a native Responses API has is refused, naming where it is', () => {
  it.each([
    'web_search',
    'file_search',
    'mcp',
    'code_interpreter',
    'image_generation',
    'local_shell',
    'shell',
    'apply_patch',
    'computer',
    'tool_search',
    'programmatic_tool_calling',
    'something_new',
  ])('%s', (type) => {
    const message = expect.stringContaining(`tools of type '${type}'`);
    expect(chatTools({ tools: [weather, { type }], tool_choice: 'auto', parallel_tool_calls: true })).toMatchObject({
      ok: false,
      refusal: { status: 400, code: 'unsupported_value', param: 'tools[1].type', message },
    });
  });

  it('also within a namespace', () => {
    expect(chatTools({ tools: [{ ...agents, tools: [webSearch] }] })).toMatchObject({
      refusal: { param: 'tools[0].tools[0].type' },
    });
  });
});

describe('a warning about dropped tools', () => {
  it('names each type once beside the client’s own metadata, and has at most 512 characters', () => {
    const long = { type: 'x'.repeat(600) };
    const body = { tools: [weather, webSearch, webSearch, { type: 'mcp' }], metadata: { a: 'b' } };
    expect(withoutUnsupportedTools(body)).toEqual({
      tools: [weather],
      metadata: {
        a: 'b',
        gateway_unsupported_tools: "Not sent to the model: 'web_search', 'mcp'. Its provider has no such tools.",
      },
    });
    const { metadata } = withoutUnsupportedTools<Record<string, unknown>>({ tools: [long] });
    expect(Object.values(metadata ?? {})).toEqual([expect.stringMatching(/^.{512}$/)]);
  });

  it('is absent when nothing was dropped', () => {
    const body = { tools: [weather, agents] };
    expect(withoutUnsupportedTools(body)).toBe(body);
  });
});

describe('a tool without a name is refused, naming where it is', () => {
  it.each([
    ['tools[1].name', [weather, { type: 'function' }]],
    ['tools[0].name', [{ type: 'custom', name: '' }]],
    ['tools[0].name', [{ type: 'function', function: { parameters: {} } }]],
    ['tools[0].tools[0].name', [{ type: 'namespace', name: 'ns', tools: [{ type: 'function' }] }]],
  ])('%s', (param, tools) => {
    expect(chatTools({ tools })).toMatchObject({
      ok: false,
      refusal: { status: 400, code: 'missing_required_parameter', param },
    });
  });
});

describe('an unsupported choice is refused, naming tool_choice', () => {
  it.each([
    ['a hosted tool', { tools: [weather], tool_choice: { type: 'web_search' } }],
    ['an MCP server', { tools: [weather], tool_choice: { type: 'mcp', server_label: 's' } }],
    ['a function that is not there', { tools: [weather], tool_choice: { type: 'function', name: 'get_time' } }],
    ['any tool, when none is given', { tool_choice: 'required' }],
    [
      'one of some allowed tools, when none of them can be called',
      { tools: [weather], tool_choice: { type: 'allowed_tools', mode: 'required', tools: [webSearch] } },
    ],
    [
      'allowed tools of which one is not there',
      { tools: [weather], tool_choice: { type: 'allowed_tools', tools: [{ type: 'function', name: 'get_time' }] } },
    ],
  ])('%s', (_name, body) => {
    expect(chatTools(body)).toMatchObject({ ok: false, refusal: { status: 400, param: 'tool_choice' } });
  });
});

describe('the flat name of a tool', () => {
  it('is at most 64 characters long and still distinct for each tool', () => {
    const long = 'x'.repeat(60);
    const names = [chatToolName(`${long}_a`, 'agents'), chatToolName(`${long}_b`, 'agents')];
    expect(new Set(names).size).toBe(2);
    expect(names.map((name) => name.length)).toEqual([64, 64]);
  });

  it('leads back to the tool', () => {
    const tools = [weather, agents, { type: 'custom', name: 'patch' }];
    expect([...toolIdentities(tools)]).toEqual([
      ['agents__spawn', { kind: 'function', name: 'spawn', namespace: 'agents' }],
      ['patch', { kind: 'custom', name: 'patch', namespace: undefined }],
    ]);
  });
});
