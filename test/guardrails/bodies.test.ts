import { describe, expect, it } from 'vitest';
import { withTexts } from '../../src/commands/guardrails/body/body-texts.ts';
import { type GuardedDialect, guardedBodies } from '../../src/commands/guardrails/body/guarded-bodies.ts';
import { restoreValues } from '../../src/commands/guardrails/body/restore-values.ts';
import { Placeholders } from '../../src/commands/guardrails/placeholders.ts';
import { parseExactly } from '../../src/json/exact-json.ts';

const chatRequest = {
  model: 'm',
  seed: 1,
  messages: [
    { role: 'developer', content: 'T' },
    {
      role: 'user',
      name: 'T',
      content: [
        { type: 'text', text: 'T' },
        { type: 'image_url', image_url: { url: 'x' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      refusal: 'T',
      reasoning_content: 'T',
      tool_calls: [
        { id: 'c', type: 'function', function: { name: 'f', arguments: '{ "to": "T",\n "n": 12, "list": ["T"] }' } },
        { id: 'd', type: 'custom', custom: { name: 'g', input: 'T' } },
      ],
    },
    { role: 'tool', tool_call_id: 'c', content: 'T' },
    {
      role: 'user',
      content: [
        { type: 'file', file: { file_data: 'x' } },
        { type: 'later', value: { words: 'T' } },
      ],
    },
  ],
  tools: [
    {
      type: 'function',
      function: {
        name: 'f',
        description: 'T',
        parameters: { type: 'object', properties: { title: { type: 'string', description: 'T' } } },
      },
    },
  ],
  prediction: { type: 'content', content: 'T' },
  user: 'T',
  metadata: { team: 'T' },
};

const responsesRequest = {
  model: 'm',
  instructions: 'T',
  input: [
    { role: 'user', content: 'T' },
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'T' }] },
    { type: 'reasoning', id: 'r', summary: [{ type: 'summary_text', text: 'T' }], encrypted_content: 'x' },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{"a":"T"}' },
    { type: 'function_call_output', call_id: 'c', output: 'T' },
    { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'T' }] },
    { type: 'custom_tool_call', call_id: 'd', name: 'g', input: 'T' },
    { type: 'item_reference', id: 'i' },
    { type: 'web_search_call', id: 'w', status: 'completed', action: { type: 'search', query: 'T' } },
  ],
  prompt: { id: 'p', variables: { city: 'T', more: { type: 'input_text', text: 'T' } } },
  tools: [{ type: 'function', name: 'f', description: 'T', parameters: {} }],
  safety_identifier: 'T',
};

const messagesRequest = {
  model: 'm',
  system: [{ type: 'text', text: 'T', cache_control: { type: 'ephemeral' } }],
  messages: [
    { role: 'user', content: 'T' },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'T', signature: 'x' },
        { type: 'redacted_thinking', data: 'x' },
        { type: 'text', text: 'T' },
        { type: 'tool_use', id: 'u', name: 'f', input: { id: 'T', list: ['T', 4] } },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'u', content: [{ type: 'text', text: 'T' }] },
        { type: 'tool_result', tool_use_id: 'u', content: 'T' },
        { type: 'document', title: 'T', source: { type: 'text', media_type: 'text/plain', data: 'T' } },
        { type: 'image', source: { type: 'base64', data: 'x' } },
      ],
    },
  ],
  tools: [{ name: 'f', description: 'T', input_schema: {} }],
  metadata: { user_id: 'T' },
};

const requests: readonly (readonly [GuardedDialect, object, readonly string[]])[] = [
  ['chat', chatRequest, ['messages.1.content.1', 'messages.4.content.0']],
  ['responses', responsesRequest, []],
  ['messages', messagesRequest, ['messages.2.content.3']],
  ['completions', { model: 'm', prompt: ['T', 'T'], suffix: 'T', user: 'T' }, []],
  ['completions', { model: 'm', prompt: [[1, 2]] }, ['prompt']],
  ['embeddings', { model: 'm', input: ['T'] }, []],
];

const answers: readonly (readonly [GuardedDialect, object])[] = [
  [
    'chat',
    {
      id: 'c',
      choices: [
        { index: 0, message: { role: 'assistant', content: 'T', reasoning_content: 'T' }, finish_reason: 'stop' },
        { index: 1, message: { tool_calls: [{ id: 'a', function: { name: 'f', arguments: '{"x":"T"}' } }] } },
      ],
    },
  ],
  [
    'responses',
    {
      id: 'r',
      output: [
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'T' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'T', annotations: [] }] },
        { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'T' }] },
        { type: 'function_call', arguments: '{"x":"T"}' },
      ],
    },
  ],
  [
    'messages',
    {
      type: 'message',
      content: [
        { type: 'text', text: 'T' },
        { type: 'tool_use', input: { x: 'T' } },
      ],
    },
  ],
  ['completions', { choices: [{ text: 'T' }, { text: 'T' }] }],
];

/** The JSON text with every `T` that stands for a text replaced. */
function everywhere(body: object, text: string): unknown {
  return JSON.parse(
    JSON.stringify(body).replaceAll('"T"', JSON.stringify(text)).replaceAll('\\"T\\"', `\\"${text}\\"`),
  );
}

describe('guardedBodies', () => {
  it.each(requests)('%s request: finds every text, changes nothing else', (dialect, body, unreadable) => {
    const { request } = guardedBodies[dialect];
    const texts = request.texts(body);
    const before = JSON.stringify(body);
    expect(texts.unreadable).toEqual(unreadable);
    const found = texts.parts.flatMap(({ text }, index) => (text === 'T' ? [index] : []));
    const changed = withTexts(body, texts, new Map(found.map((index) => [index, 'changed'])));
    expect(changed).toEqual(everywhere(body, 'changed'));
    expect(JSON.stringify(body)).toBe(before);
    expect(texts.parts.filter(({ text, kind }) => text === 'x' && kind !== 'other')).toEqual([]);
  });

  it.each(answers)('%s answer: finds every text, changes nothing else', (dialect, body) => {
    const { answer } = guardedBodies[dialect];
    const texts = answer?.texts(body) ?? { parts: [], places: [], unreadable: [] };
    const changed = withTexts(
      body,
      texts,
      new Map(texts.parts.flatMap(({ text }, index) => (text === 'T' ? [[index, 'changed'] as const] : []))),
    );
    expect(changed).toEqual(everywhere(body, 'changed'));
    expect(texts.parts.every(({ role }) => role === 'assistant')).toBe(true);
  });

  it('keeps the order of members, exact integers and the layout of arguments', () => {
    const json =
      '{"z":12345678901234567890,"messages":[{"content":"a","role":"user"},{"role":"assistant","tool_calls":[{"function":{"arguments":"{ \\"b\\" : 1.50, \\"a\\": \\"x\\" }"}}]}],"a":1}';
    const body = parseExactly(json);
    const texts = guardedBodies.chat.request.texts(body);
    const changes = new Map(
      texts.parts.flatMap(({ text }, index) => (text === 'x' ? [[index, 'say "y"'] as const] : [])),
    );
    const expected = json.replace('\\"x\\"', '\\"say \\\\\\"y\\\\\\"\\"');
    expect(JSON.stringify(withTexts(body, texts, changes))).toBe(expected);
  });

  it('writes a changed number of arguments as a string', () => {
    const body = {
      messages: [{ role: 'assistant', tool_calls: [{ function: { arguments: '{"card":4111111111111111}' } }] }],
    };
    const texts = guardedBodies.chat.request.texts(body);
    const card = texts.parts.findIndex(({ text }) => text === '4111111111111111');
    const changed = JSON.stringify(withTexts(body, texts, new Map([[card, '<CARD_NUMBER_1>']])));
    expect(changed).toContain('{\\"card\\":\\"<CARD_NUMBER_1>\\"}');
  });

  it('gives texts their roles and kinds', () => {
    const { parts } = guardedBodies.chat.request.texts(chatRequest);
    const kinds = parts.filter(({ text }) => text === 'T').map(({ role, kind }) => `${role} ${kind}`);
    expect(kinds).toEqual([
      ...['system text', 'user text', 'user identifier', 'assistant refusal', 'assistant reasoning'],
      ...['assistant tool_arguments', 'assistant tool_arguments', 'assistant tool_arguments', 'tool tool_result'],
      ...[
        'user text',
        'assistant text',
        'system definition',
        'system definition',
        'user identifier',
        'user identifier',
      ],
    ]);
  });

  it.each([
    [
      'chat',
      { messages: [{ role: 'user', content: 'u' }] },
      {
        messages: [
          { role: 'system', content: 'S' },
          { role: 'user', content: 'u' },
        ],
      },
    ],
    ['responses', { input: 'u' }, { input: 'u', instructions: 'S' }],
    ['messages', { messages: [] }, { messages: [], system: 'S' }],
    ['completions', { prompt: 'p' }, { prompt: 'S\n\np' }],
  ] as const)('%s: adds a system text', (dialect, body, expected) => {
    expect(guardedBodies[dialect].request.withSystem?.(body, { mode: 'add', text: 'S' })).toEqual(expected);
  });

  it.each([
    [
      'chat',
      {
        messages: [
          { role: 'user', content: 'u' },
          { role: 'developer', content: 'd' },
        ],
      },
      {
        messages: [
          { role: 'system', content: 'S' },
          { role: 'user', content: 'u' },
        ],
      },
    ],
    [
      'responses',
      {
        instructions: 'i',
        input: [
          { role: 'system', content: 's' },
          { role: 'user', content: 'u' },
        ],
      },
      { instructions: 'S', input: [{ role: 'user', content: 'u' }] },
    ],
    ['messages', { system: [{ type: 'text', text: 's' }] }, { system: 'S' }],
  ] as const)('%s: replaces the system texts', (dialect, body, expected) => {
    expect(guardedBodies[dialect].request.withSystem?.(body, { mode: 'replace', text: 'S' })).toEqual(expected);
  });
});

describe('restoreValues', () => {
  it('restores values in every string of an answer, escaped in JSON texts', () => {
    const placeholders = new Placeholders();
    const name = placeholders.placeholderOf('NAME', 'Jane "J" Doe');
    const answer = {
      instructions: `call ${name}`,
      output: [{ arguments: `{"to":"${name}"}` }, { content: [{ text: `${name}${name} <NAME_2>` }] }],
    };
    expect(restoreValues(answer, placeholders)).toEqual({
      instructions: 'call Jane "J" Doe',
      output: [
        { arguments: '{"to":"Jane \\"J\\" Doe"}' },
        { content: [{ text: 'Jane "J" DoeJane "J" Doe <NAME_2>' }] },
      ],
    });
  });

  it('returns the same object when there is nothing to restore', () => {
    const answer = { output: [{ text: '<b>' }] };
    const placeholders = new Placeholders([{ placeholder: '<EMAIL_1>', value: 'a@b.example' }]);
    expect(restoreValues(answer, placeholders)).toBe(answer);
  });
});
