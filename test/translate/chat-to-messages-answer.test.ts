import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { completionOf } from '../../src/providers/translate/chat-adapter.ts';
import { MessagesAnswerReader } from '../../src/providers/translate/chat-to-messages/reader.ts';

const facts = { id: 'chatcmpl-1', model: 'anthropic/claude', createdAt: 1_700_000_000 };
const read = (answer: unknown) => new MessagesAnswerReader(facts).whole(answer);

function received(...events: object[]) {
  const reader = new MessagesAnswerReader(facts);
  const chunks = events.flatMap((event) => reader.chunks(JSON.stringify(event)) ?? []);
  return { chunks, ended: reader.ended };
}

const message = (content: object[], more: object = {}) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  content,
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 2 },
  ...more,
});
const start = { type: 'message_start', message: message([], { stop_reason: null }) };
const stop = { type: 'message_stop' };
const finish = (stop_reason: string | null, usage: object = { output_tokens: 5 }) => ({
  type: 'message_delta',
  delta: { stop_reason, stop_sequence: null },
  usage,
});
const opened = (index: number, content_block: object) => ({ type: 'content_block_start', index, content_block });
const delta = (index: number, type: string, more: object) => ({
  type: 'content_block_delta',
  index,
  delta: { type, ...more },
});
const closed = (index: number) => ({ type: 'content_block_stop', index });

describe('a whole answer', () => {
  it('becomes a completion', () => {
    expect(read(message([{ type: 'text', text: 'Hello' }]))).toEqual({
      id: 'msg_1',
      object: 'chat.completion',
      created: 1_700_000_000,
      model: 'claude-x',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 3,
        completion_tokens: 2,
        total_tokens: 5,
        prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      },
    });
  });

  it('with thinking and calls has both, and carries the signed blocks that must come back', () => {
    const thinking = { type: 'thinking', thinking: 'hm', signature: 'sig' };
    const redacted = { type: 'redacted_thinking', data: 'xyz' };
    const call = { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } };
    const extra_content = { anthropic: { thinking_blocks: [thinking, { ...redacted, after_text: 4 }] } };
    expect(
      read(message([thinking, { type: 'text', text: 'Wait' }, redacted, call], { stop_reason: 'tool_use' })),
    ).toMatchObject({
      choices: [
        {
          message: {
            content: 'Wait',
            reasoning_content: 'hm',
            tool_calls: [
              { id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' }, extra_content },
            ],
            extra_content,
          },
          finish_reason: 'tool_calls',
        },
      ],
    });
  });

  it('counts cached tokens as input, and reports reasoning tokens', () => {
    const usage = {
      input_tokens: 10,
      cache_read_input_tokens: 100,
      cache_creation_input_tokens: 1000,
      output_tokens: 7,
      output_tokens_details: { thinking_tokens: 4 },
      service_tier: 'standard',
    };
    expect(read(message([], { usage }))).toMatchObject({
      service_tier: 'default',
      usage: {
        prompt_tokens: 1110,
        completion_tokens: 7,
        total_tokens: 1117,
        prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 1000 },
        completion_tokens_details: { reasoning_tokens: 4 },
      },
    });
  });

  it.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['tool_use', 'tool_calls'],
    ['refusal', 'content_filter'],
    ['pause_turn', 'stop'],
    ['something_new', 'stop'],
  ])('that stopped for %s has the finish reason %s', (stop_reason, finish_reason) => {
    expect(read(message([], { stop_reason }))).toMatchObject({ choices: [{ finish_reason }] });
  });

  it('keeps its citations', () => {
    const citations = [{ type: 'web_search_result_location', url: 'https://a.b', title: 'A', cited_text: 'x' }];
    const content = [
      { type: 'text', text: 'So: ' },
      { type: 'server_tool_use', id: 's', name: 'web_search' },
      { type: 'text', text: 'yes', citations },
    ];
    expect(read(message(content))).toMatchObject({
      choices: [
        {
          message: {
            content: 'So: yes',
            annotations: [
              { type: 'url_citation', url_citation: { url: 'https://a.b', title: 'A', start_index: 4, end_index: 7 } },
            ],
          },
        },
      ],
    });
  });

  it.each([[{ error: { message: 'no' } }], ['text'], [null], [{ content: 'x' }]])(
    '%j is given back as it is',
    (answer) => {
      expect(read(answer)).toBe(answer);
    },
  );
});

describe('a stream', () => {
  it("streams OpenAI's chunks in order, with each call's head before its arguments", () => {
    const { chunks, ended } = received(
      start,
      opened(0, { type: 'text', text: '' }),
      { type: 'ping' },
      delta(0, 'text_delta', { text: 'Hel' }),
      delta(0, 'text_delta', { text: 'lo' }),
      closed(0),
      opened(1, { type: 'tool_use', id: 't1', name: 'f', input: {} }),
      delta(1, 'input_json_delta', { partial_json: '' }),
      delta(1, 'input_json_delta', { partial_json: '{"a"' }),
      delta(1, 'input_json_delta', { partial_json: ':1}' }),
      closed(1),
      opened(2, { type: 'tool_use', id: 't2', name: 'g', input: {} }),
      closed(2),
      finish('tool_use', { output_tokens: 9 }),
      stop,
    );
    expect(ended).toBe(true);
    const choices = chunks.map(({ choices }) => (choices as { delta: object; finish_reason: string | null }[])[0]);
    expect(choices.map((choice) => choice?.delta ?? 'usage')).toEqual([
      { role: 'assistant', content: '' },
      { content: 'Hel' },
      { content: 'lo' },
      { tool_calls: [{ index: 0, id: 't1', type: 'function', function: { name: 'f', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] },
      { tool_calls: [{ index: 0, function: { arguments: ':1}' } }] },
      { tool_calls: [{ index: 1, id: 't2', type: 'function', function: { name: 'g', arguments: '' } }] },
      { tool_calls: [{ index: 1, function: { arguments: '{}' } }] },
      {},
      'usage',
    ]);
    expect(choices.at(-2)?.finish_reason).toBe('tool_calls');
    expect(chunks.at(-1)).toMatchObject({
      id: 'msg_1',
      object: 'chat.completion.chunk',
      created: 1_700_000_000,
      model: 'claude-x',
      choices: [],
      usage: { prompt_tokens: 3, completion_tokens: 9, total_tokens: 12 },
    });
  });

  it('carries a thinking block as soon as it is signed, and again with the call that follows it', () => {
    const { chunks } = received(
      start,
      opened(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, 'thinking_delta', { thinking: 'a' }),
      delta(0, 'thinking_delta', { thinking: 'b' }),
      delta(0, 'signature_delta', { signature: 'sig' }),
      closed(0),
      opened(1, { type: 'tool_use', id: 't', name: 'f', input: {} }),
      closed(1),
    );
    const kept = { anthropic: { thinking_blocks: [{ type: 'thinking', thinking: 'ab', signature: 'sig' }] } };
    expect(chunks.slice(1, 5).map(({ choices }) => (choices as { delta: object }[])[0]?.delta)).toEqual([
      { reasoning_content: 'a' },
      { reasoning_content: 'b' },
      { extra_content: kept },
      {
        tool_calls: [
          { index: 0, id: 't', type: 'function', function: { name: 'f', arguments: '' }, extra_content: kept },
        ],
      },
    ]);
  });

  it('that fails gives the error unchanged', () => {
    const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
    expect(received(start, error)).toMatchObject({ chunks: [{}, error], ended: false });
  });

  it('that lacks its message_delta has no finish reason', () => {
    const { chunks, ended } = received(start, stop);
    expect(ended).toBe(true);
    expect(chunks).toMatchObject([{ choices: [{ finish_reason: null }] }]);
  });

  it('ignores events of unknown types, and reports data that is no event', () => {
    const reader = new MessagesAnswerReader(facts);
    for (const data of ['', '{"type":"new_event"}', '{"type":"content_block_delta","index":9}']) {
      expect(reader.chunks(data)).toEqual([]);
    }
    for (const data of ['no json', '[]', '7', '{"type":"content_bl']) expect(reader.chunks(data)).toBeUndefined();
    expect(
      received(opened(0, { type: 'new_block' }), delta(0, 'new_delta', {}), closed(0), finish(null)).chunks,
    ).toEqual([]);
  });
});

const recorded =
  process.env['CHANCERY_RECORDED_FIXTURES'] ??
  fileURLToPath(new URL('../../../shared/fixtures/recorded', import.meta.url));

describe.skipIf(!existsSync(`${recorded}/anthropic`))('recorded from Anthropic', () => {
  const cassette = (name: string) => readFileSync(`${recorded}/anthropic/${name}`, 'utf8');

  it.each([
    ['messages.json', 'stop'],
    ['messages_multi_turn.json', 'stop'],
    ['messages_multimodal.json', 'stop'],
    ['messages_with_params.json', 'stop'],
  ])('%s', (name, finish_reason) => {
    const answer = JSON.parse(cassette(name));
    const { input_tokens, output_tokens } = answer.usage;
    expect(read(answer)).toMatchObject({
      id: answer.id,
      choices: [{ message: { content: answer.content[0].text }, finish_reason }],
      usage: {
        prompt_tokens: input_tokens,
        completion_tokens: output_tokens,
        total_tokens: input_tokens + output_tokens,
      },
    });
  });

  it('the stop sequence that ended an answer', () => {
    expect(read(JSON.parse(cassette('messages_with_params.json')))).toMatchObject({
      choices: [{ stop_sequence: '3' }],
    });
  });

  it('a call', () => {
    expect(read(JSON.parse(cassette('messages_with_tools.json')))).toMatchObject({
      choices: [
        {
          message: {
            tool_calls: [
              {
                id: 'toolu_01Dq95J3WcnLmvSvBpAuaXwi',
                type: 'function',
                function: { name: 'get_weather', arguments: '{"location":"Paris"}' },
              },
            ],
          },
          finish_reason: 'tool_calls',
        },
      ],
    });
  });

  it('a thought, with its signature', () => {
    const answer = JSON.parse(cassette('messages_extended_thinking.json'));
    const [thought, text] = answer.content;
    expect(read(answer)).toMatchObject({
      choices: [
        {
          message: {
            content: text.text,
            reasoning_content: thought.thinking,
            extra_content: { anthropic: { thinking_blocks: [thought] } },
          },
        },
      ],
    });
  });

  it('a stream', () => {
    const lines = cassette('messages_stream.txt')
      .split('\n')
      .filter((line) => line.startsWith('data: '));
    const reader = new MessagesAnswerReader(facts);
    const chunks = lines.flatMap((line) => reader.chunks(line.slice('data: '.length)) ?? []);
    expect(reader.ended).toBe(true);
    expect(completionOf(chunks)).toMatchObject({
      id: 'msg_01SJmPi7XXP8qscFQiHPR9oy',
      choices: [{ message: { content: 'Hello World' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    });
  });
});

describe('an answer that had to be a JSON object', () => {
  const tool = { type: 'tool_use', id: 'toolu_1', name: 'gateway_json_answer', input: { a: [1, null] } };
  const thought = { type: 'thinking', thinking: 'Hm.', signature: 's' };
  const own = { type: 'tool_use', id: 'toolu_2', name: 'f', input: {} };
  const choiceOf = (completion: unknown) => Object(completion).choices[0];

  it('is the input of its tool as text, and ends regularly', () => {
    expect(choiceOf(read(message([thought, tool], { stop_reason: 'tool_use' })))).toMatchObject({
      message: { content: '{"a":[1,null]}', reasoning_content: 'Hm.' },
      finish_reason: 'stop',
    });
    expect(choiceOf(read(message([tool], { stop_reason: 'tool_use' }))).message).not.toHaveProperty('tool_calls');
    expect(choiceOf(read(message([{ ...tool, input: {} }], { stop_reason: 'tool_use' }))).message.content).toBe('{}');
  });

  it('arrives piece by piece in a stream', () => {
    const json = (partial_json: string) => delta(0, 'input_json_delta', { partial_json });
    const head = opened(0, { ...tool, input: {} });
    const { chunks } = received(start, head, json(''), json('{"a"'), json(':1}'), closed(0), finish('tool_use'), stop);
    const deltas = chunks.flatMap((chunk) => Object(chunk).choices);
    expect(deltas.map((choice) => choice.delta.content).filter(Boolean)).toEqual(['{"a"', ':1}']);
    expect(deltas.some((choice) => 'tool_calls' in choice.delta)).toBe(false);
    expect(deltas.at(-1)).toMatchObject({ finish_reason: 'stop' });
  });

  it('may call tools of the client instead, or beside it', () => {
    expect(choiceOf(read(message([own], { stop_reason: 'tool_use' })))).toMatchObject({ finish_reason: 'tool_calls' });
    const both = choiceOf(read(message([tool, own], { stop_reason: 'tool_use' })));
    expect(both).toMatchObject({ message: { content: '{"a":[1,null]}' }, finish_reason: 'tool_calls' });
    expect(both.message.tool_calls).toHaveLength(1);
  });

  it('is one object, also when the model calls the tool twice', () => {
    expect(choiceOf(read(message([tool, { ...tool, id: 'toolu_3', input: { b: 2 } }]))).message.content).toBe(
      '{"a":[1,null]}',
    );
  });

  it('is cut off where the limit of tokens ends it', () => {
    const json = delta(0, 'input_json_delta', { partial_json: '{"a":"' });
    const { chunks } = received(start, opened(0, { ...tool, input: {} }), json, closed(0), finish('max_tokens'), stop);
    expect(Object(chunks.flatMap((chunk) => Object(chunk).choices).at(-1))).toMatchObject({ finish_reason: 'length' });
  });
});
