import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changesOfPart, removedValues } from '../../../dashboard/src/content/conversation/changed-parts.ts';
import { splitPlaceholders } from '../../../dashboard/src/content/conversation/placeholders.ts';
import { readConversation } from '../../../dashboard/src/content/conversation/read-conversation.ts';
import { looksLikeStream, readFrames } from '../../../dashboard/src/content/conversation/sse-frames.ts';
import type { Conversation, Dialect, Part, Turn } from '../../../dashboard/src/content/conversation/turn.ts';
import { compareJson } from '../../../dashboard/src/content/diff/compare-json.ts';
import { readJson, sourceOf } from '../../../dashboard/src/content/json/json-document.ts';
import { runNow } from '../../../dashboard/src/content/sliced.ts';
import { countOf } from '../../support/seed.ts';

function read(dialect: Dialect, request: unknown, answer?: unknown): Conversation {
  const text = (body: unknown) => (body === undefined || typeof body === 'string' ? body : JSON.stringify(body));
  return runNow(readConversation({ dialect, request: text(request), answer: text(answer) }));
}

function stream(...frames: unknown[]): string {
  return frames.map((frame) => `data: ${typeof frame === 'string' ? frame : JSON.stringify(frame)}\n\n`).join('');
}

/** A part without the parts of the document that it refers to. */
function shown(part: Part): unknown {
  if (part.kind === 'json') return { kind: 'json', label: part.label, source: sourceOf(part.node) };
  return part.kind === 'tool result' ? { ...part, parts: part.parts.map(shown) } : part;
}

function parts(turn: Turn | undefined): unknown[] {
  return (turn?.parts ?? []).map(({ part }) => shown(part));
}

function named(list: readonly { name: string; node: Parameters<typeof sourceOf>[0] }[]): Record<string, string> {
  return Object.fromEntries(list.map(({ name, node }) => [name, sourceOf(node)]));
}

const text = (value: string) => ({ kind: 'text', text: value });

describe('readFrames', () => {
  it('reads frames with any line break, comments, several data lines and no empty line at the end', () => {
    const recorded = ': hello\nevent: a\r\ndata: 1\r\ndata:2\r\n\r\ndata: 3\r\rid: 7\n\nretry: 5\ndata: [DONE]';
    const frames = runNow(readFrames(recorded));
    expect(frames.map(({ event, data }) => [event, data])).toEqual([
      ['a', '1\n2'],
      [undefined, '3'],
      [undefined, '[DONE]'],
    ]);
    expect(frames.map(({ start, end }) => recorded.slice(start, end)).join('')).toBe(recorded.replace('id: 7\n\n', ''));
  });

  it('tells a stream from JSON', () => {
    expect(looksLikeStream('data: {}\n\n')).toBe(true);
    // The provider's answer to parallel calls.
    expect(looksLikeStream('call: 0\nevent: ping\ndata: {}\n\n')).toBe(true);
    expect(looksLikeStream(': comment\n\ndata: {}')).toBe(true);
    expect(looksLikeStream('{"data": 1}')).toBe(false);
  });
});

describe('chat', () => {
  const request = {
    model: 'gpt-x',
    messages: [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        name: 'ann',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
          { type: 'image_url', image_url: { url: 'https://evil.example/x.png' } },
          { type: 'input_audio', input_audio: { data: 'BBBB', format: 'wav' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,CCCC' } },
          { type: 'new_thing', x: 1 },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"n":12345678901234567890}' } }],
        extra: true,
      },
      { role: 'tool', tool_call_id: 'c1', content: 'done' },
    ],
    tools: [{ type: 'function', function: { name: 'f', description: 'does f', parameters: {} } }],
    temperature: 0.5,
  };

  it('reads every kind of part of a request', () => {
    const { turns, tools, settings, problems } = read('chat', request);
    expect(problems).toEqual([]);
    expect(turns.map(({ role, name }) => [role, name])).toEqual([
      ['system', undefined],
      ['user', 'ann'],
      ['assistant', undefined],
      ['tool', undefined],
    ]);
    expect(parts(turns[1])).toEqual([
      text('What is this?'),
      { kind: 'image', media: { kind: 'data', mediaType: 'image/png', base64: 'AAAA' }, name: undefined },
      { kind: 'image', media: { kind: 'url', url: 'https://evil.example/x.png' }, name: undefined },
      { kind: 'audio', media: { kind: 'data', mediaType: 'audio/wav', base64: 'BBBB' }, name: undefined },
      { kind: 'file', media: { kind: 'data', mediaType: 'application/pdf', base64: 'CCCC' }, name: 'a.pdf' },
      { kind: 'json', label: 'new_thing', source: '{"type":"new_thing","x":1}' },
    ]);
    expect(parts(turns[2])).toEqual([
      { kind: 'tool call', id: 'c1', name: 'f', arguments: '{"n":12345678901234567890}' },
    ]);
    expect(named(turns[2]?.others ?? [])).toEqual({ extra: 'true' });
    expect(parts(turns[3])).toEqual([{ kind: 'tool result', callId: 'c1', failed: false, parts: [text('done')] }]);
    expect(tools.map(({ name, description }) => [name, description])).toEqual([['f', 'does f']]);
    expect(named(settings)).toEqual({ model: '"gpt-x"', temperature: '0.5' });
  });

  it('assembles a stream to the turn that the JSON answer has', () => {
    const pieces = fc.array(fc.string({ unit: 'grapheme' }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(pieces, pieces, pieces, (thoughts, words, args) => {
        const frames = [
          { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] },
          ...thoughts.map((reasoning_content) => ({ choices: [{ index: 0, delta: { reasoning_content } }] })),
          ...words.map((content) => ({ choices: [{ index: 0, delta: { content } }] })),
          {
            choices: [
              {
                index: 0,
                delta: {
                  tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '' } }],
                },
              },
            ],
          },
          ...args.map((piece) => ({
            choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: piece } }] } }],
          })),
          { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
          { choices: [], usage: { total_tokens: 3 } },
          '[DONE]',
        ];
        const call = { id: 'c', type: 'function', function: { name: 'f', arguments: args.join('') } };
        const reasoning_content = thoughts.join('') || undefined;
        const message = { role: 'assistant', reasoning_content, content: words.join('') || null, tool_calls: [call] };
        const streamed = read('chat', undefined, stream(...frames));
        const complete = read('chat', undefined, {
          choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
          usage: { total_tokens: 3 },
        });
        expect(streamed.turns.map(parts)).toEqual(complete.turns.map(parts));
        expect(streamed.turns[0]?.ending).toBe('tool_calls');
        expect(named(streamed.answer)).toEqual({ usage: '{"total_tokens":3}' });
      }),
    );
  });

  it('keeps several choices apart, and errors within a stream', () => {
    const frames = stream(
      { choices: [{ index: 1, delta: { content: 'b' } }] },
      { choices: [{ index: 0, delta: { content: 'a' } }] },
      { error: { message: 'overloaded', type: 'server_error' } },
    );
    const { turns } = read('chat', undefined, frames);
    expect(turns.map(({ role, choice }) => [role, choice])).toEqual([
      ['assistant', 0],
      ['assistant', 1],
      ['error', undefined],
    ]);
    expect(turns.map(parts)).toEqual([[text('a')], [text('b')], [text('overloaded')]]);
  });

  it('shows an error answer as an error', () => {
    const { turns } = read('chat', undefined, { error: { message: 'No budget.', code: 'budget_exceeded' } });
    expect(turns).toMatchObject([{ role: 'error', origin: 'answer' }]);
    expect(named(turns[0]?.others ?? [])).toEqual({ code: '"budget_exceeded"' });
  });

  it('keeps what came before a stream or a body breaks off', () => {
    const cut = `${stream({ choices: [{ index: 0, delta: { content: 'Hel' } }] })}data: {"choices":[{"index":0,"delta":{"content":"lo`;
    const { turns, problems } = read('chat', JSON.stringify(request).slice(0, 60), cut);
    expect(parts(turns[0])).toEqual([text('Be ')]);
    expect(parts(turns[1])).toEqual([text('Hello')]);
    expect(problems).toHaveLength(2);
  });
});

describe('messages', () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'AAAA' } };

  it('reads system text, blocks, and results of tools as turns of their own', () => {
    const { turns } = read('messages', {
      system: [{ type: 'text', text: 'Rules' }],
      messages: [
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: 'abcd' },
            { type: 'tool_use', id: 't', name: 'f', input: { n: 1 } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 't', is_error: true, content: [{ type: 'text', text: 'no' }, image] },
            { type: 'text', text: 'Go on' },
          ],
        },
      ],
    });
    expect(turns.map(({ role }) => role)).toEqual(['system', 'assistant', 'tool', 'user']);
    expect(parts(turns[1])).toEqual([
      { kind: 'reasoning', text: 'hm' },
      { kind: 'hidden reasoning', characters: 4 },
      { kind: 'tool call', id: 't', name: 'f', arguments: '{"n":1}' },
    ]);
    expect(parts(turns[2])).toEqual([
      {
        kind: 'tool result',
        callId: 't',
        failed: true,
        parts: [
          text('no'),
          { kind: 'image', media: { kind: 'data', mediaType: 'image/jpeg', base64: 'AAAA' }, name: undefined },
        ],
      },
    ]);
  });

  it('assembles a stream', () => {
    const frames = stream(
      { type: 'message_start', message: { id: 'm', role: 'assistant', content: [], usage: { input_tokens: 1 } } },
      { type: 'ping' },
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'let me' } },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hel' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'lo' } },
      { type: 'content_block_start', index: 2, content_block: { type: 'tool_use', id: 't', name: 'f', input: {} } },
      { type: 'content_block_delta', index: 2, delta: { type: 'input_json_delta', partial_json: '{"n":' } },
      {
        type: 'content_block_delta',
        index: 2,
        delta: { type: 'input_json_delta', partial_json: '99999999999999999999}' },
      },
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } },
      { type: 'message_stop' },
    );
    const { turns, answer } = read('messages', undefined, frames);
    expect(turns).toMatchObject([{ role: 'assistant', ending: 'tool_use' }]);
    expect(parts(turns[0])).toEqual([
      { kind: 'reasoning', text: 'let me' },
      text('Hello'),
      { kind: 'tool call', id: 't', name: 'f', arguments: '{"n":99999999999999999999}' },
    ]);
    expect(named(answer)).toEqual({ id: '"m"', usage: '{"output_tokens":5}' });
  });

  it('reads a JSON answer', () => {
    const { turns, answer } = read('messages', undefined, {
      role: 'assistant',
      content: [{ type: 'text', text: 'Hi' }],
      stop_reason: 'end_turn',
      model: 'x',
    });
    expect(turns).toMatchObject([{ role: 'assistant', ending: 'end_turn' }]);
    expect(named(answer)).toMatchObject({ model: '"x"' });
  });
});

describe('responses', () => {
  const items = [
    { type: 'reasoning', id: 'r', summary: [{ type: 'summary_text', text: 'thinking' }], encrypted_content: 'xyz' },
    { type: 'function_call', id: 'i', call_id: 'c', name: 'f', arguments: '{}', status: 'completed' },
    {
      type: 'message',
      id: 'm',
      role: 'assistant',
      status: 'completed',
      content: [
        { type: 'output_text', text: 'Hi', annotations: [] },
        { type: 'refusal', refusal: 'No.' },
      ],
    },
    { type: 'web_search_call', id: 'w', status: 'completed', action: { query: 'q' } },
  ];
  const assistantParts = [
    { kind: 'reasoning', text: 'thinking' },
    { kind: 'hidden reasoning', characters: 3 },
    { kind: 'tool call', id: 'c', name: 'f', arguments: '{}' },
    text('Hi'),
    { kind: 'refusal', text: 'No.' },
    { kind: 'json', label: 'web_search_call', source: JSON.stringify(items[3]) },
  ];

  it('reads instructions, items and a text input', () => {
    const { turns } = read('responses', {
      instructions: 'Be brief.',
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'a' },
            { type: 'input_image', image_url: 'https://x.example/i.png' },
          ],
        },
        ...items,
        { type: 'function_call_output', call_id: 'c', output: 'ok' },
      ],
    });
    expect(turns.map(({ role }) => role)).toEqual(['instructions', 'user', 'assistant', 'tool']);
    expect(parts(turns[2])).toEqual(assistantParts);
    expect(read('responses', { input: 'Hello' }).turns.map(parts)).toEqual([[text('Hello')]]);
  });

  it('reads the same from a JSON answer and from the end of a stream', () => {
    const response = {
      id: 'resp',
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: items,
    };
    const complete = read('responses', undefined, response);
    expect(complete.turns.map(parts)).toEqual([assistantParts]);
    expect(complete.turns[0]?.ending).toBe('incomplete: max_output_tokens');
    const streamed = read(
      'responses',
      undefined,
      stream(
        { type: 'response.created', response: { id: 'resp', output: [] } },
        { type: 'response.incomplete', response },
      ),
    );
    expect(streamed.turns.map(parts)).toEqual([assistantParts]);
  });

  it('assembles a stream that broke off from its deltas', () => {
    const frames = stream(
      { type: 'response.created', response: { id: 'resp', status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item: { type: 'reasoning', id: 'r', summary: [] } },
      { type: 'response.reasoning_summary_text.delta', output_index: 0, summary_index: 0, delta: 'thin' },
      { type: 'response.reasoning_summary_text.delta', output_index: 0, summary_index: 0, delta: 'king' },
      { type: 'response.output_item.done', output_index: 0, item: items[0] },
      {
        type: 'response.output_item.added',
        output_index: 1,
        item: { type: 'function_call', call_id: 'c', name: 'f', arguments: '' },
      },
      { type: 'response.function_call_arguments.delta', output_index: 1, delta: '{"a"' },
      {
        type: 'response.output_item.added',
        output_index: 2,
        item: { type: 'message', role: 'assistant', content: [] },
      },
      { type: 'response.output_text.delta', output_index: 2, content_index: 0, delta: 'Hel' },
      { type: 'response.output_text.delta', output_index: 2, content_index: 0, delta: 'lo' },
    );
    const { turns } = read('responses', undefined, frames);
    expect(turns.flatMap(parts)).toEqual([
      { kind: 'reasoning', text: 'thinking' },
      { kind: 'hidden reasoning', characters: 3 },
      { kind: 'tool call', id: 'c', name: 'f', arguments: '{"a"' },
      text('Hello'),
    ]);
  });

  it('shows a failed response as an error', () => {
    const response = { id: 'resp', status: 'failed', output: [], error: { code: 'server_error', message: 'broken' } };
    expect(read('responses', undefined, stream({ type: 'response.failed', response })).turns.map(parts)).toEqual([
      [text('broken')],
    ]);
  });
});

describe('completions and embeddings', () => {
  it('reads prompts and texts, streamed or not', () => {
    expect(read('completions', { prompt: ['a', 'b'] }).turns.map(parts)).toEqual([[text('a')], [text('b')]]);
    expect(read('completions', { prompt: [1, 2, 3] }).turns.map(parts)).toEqual([
      [{ kind: 'json', label: '3 token ids', source: '[1,2,3]' }],
    ]);
    const streamed = read(
      'completions',
      undefined,
      stream({ choices: [{ index: 0, text: 'x' }] }, { choices: [{ index: 0, text: 'y', finish_reason: 'stop' }] }),
    );
    expect(streamed.turns.map(parts)).toEqual([[text('xy')]]);
    expect(read('completions', undefined, { choices: [{ text: 'xy' }] }).turns.map(parts)).toEqual([[text('xy')]]);
  });

  it('describes vectors by their length', () => {
    const { turns } = read('embeddings', { input: 'a' }, { data: [{ index: 0, embedding: [0.1, 0.2] }] });
    expect(parts(turns[1])).toEqual([{ kind: 'json', label: 'vector of 2 numbers', source: '[0.1,0.2]' }]);
  });
});

describe('any body', () => {
  it('is read without an error in every dialect', () => {
    const names = fc.constantFrom(
      'messages',
      'input',
      'choices',
      'delta',
      'content',
      'type',
      'text',
      'output',
      'error',
      'tool_calls',
      'function',
      'item',
      'index',
    );
    const scalars = fc.oneof(
      fc.constantFrom(
        'text',
        'image',
        'tool_use',
        'message',
        'reasoning',
        'response.output_item.done',
        'content_block_delta',
      ),
      fc.integer(),
      fc.constant(null),
      fc.boolean(),
    );
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 5 },
        scalars,
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(names, tie('value'), { maxKeys: 4 }),
      ),
    }));
    const dialects = fc.constantFrom<Dialect>('chat', 'responses', 'messages', 'completions', 'embeddings');
    fc.assert(
      fc.property(
        dialects,
        value,
        fc.array(value, { maxLength: 4 }),
        fc.boolean(),
        (dialect, request, frames, streamed) => {
          const answer = streamed
            ? stream(...frames.map((frame) => JSON.stringify(frame)))
            : JSON.stringify(frames[0] ?? null);
          const conversation = read(dialect, JSON.stringify(request), answer);
          for (const turn of conversation.turns) expect(typeof turn.role).toBe('string');
        },
      ),
      { numRuns: countOf(125, 500) },
    );
  });
});

describe('changes by guardrails', () => {
  it('are found at the parts that they changed', () => {
    const before =
      '{"messages":[{"role":"user","content":[{"type":"text","text":"a@b.c"},{"type":"text","text":"same"}]}],"user":"u"}';
    const after = before.replace('a@b.c', '<EMAIL_1>').replace(',"user":"u"', '');
    const changes = runNow(compareJson(readJson(before), readJson(after)))?.changes ?? [];
    const [turn] = read('chat', after).turns;
    expect(turn?.parts.map((part) => changesOfPart(part, changes).length)).toEqual([1, 0]);
    expect(removedValues(changes).map(({ path }) => path)).toEqual([['user']]);
  });

  it('leave placeholders, which are found in a text', () => {
    expect(splitPlaceholders('Mail <EMAIL_1>, <b> and <US_SSN_12>')).toEqual([
      { text: 'Mail ', isPlaceholder: false },
      { text: '<EMAIL_1>', isPlaceholder: true },
      { text: ', <b> and ', isPlaceholder: false },
      { text: '<US_SSN_12>', isPlaceholder: true },
    ]);
  });
});
