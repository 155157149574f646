import { describe, expect, it } from 'vitest';
import { type MessageShell, thoughtIn } from '../../src/providers/translate/messages-to-chat/message-object.ts';
import {
  createMessageStreamTranslator,
  messageFromChat,
} from '../../src/providers/translate/messages-to-chat/stream.ts';
import { addedUp, messageShell } from './message-shape.ts';

const says = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
  choices: [{ index: 0, delta, finish_reason, ...more }],
});

function play(chunks: readonly unknown[], given: Partial<MessageShell> = {}) {
  const translator = createMessageStreamTranslator(messageShell(given));
  const events = chunks.flatMap((chunk) => translator.push(chunk));
  return [...events, ...translator.finish()];
}

const call = (index: number, id: string, name: string, args = '') => ({
  tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }],
});
const more = (index: number, args: string) => ({ tool_calls: [{ index, function: { arguments: args } }] });

describe('a stream of chat chunks as Messages events', () => {
  it('streams a text from its beginning to its end', () => {
    const usage = { prompt_tokens: 20, completion_tokens: 2, total_tokens: 22 };
    const chunks = [says({ role: 'assistant', content: '' }), says({ content: 'Hel' }), says({ content: 'lo' })];
    expect(play([...chunks, says({}, 'stop'), { choices: [], usage }])).toEqual([
      {
        type: 'message_start',
        message: {
          id: 'msg_1a2b',
          type: 'message',
          role: 'assistant',
          model: 'local/m1',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hel' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'lo' } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: { input_tokens: 20, output_tokens: 2, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
      },
      { type: 'message_stop' },
    ]);
  });

  it('streams thoughts, text and tool calls one after the other, each under its index', () => {
    const events = play([
      says({ reasoning_content: 'Hm.' }),
      says({ content: 'Let me look.' }),
      says(call(0, 'call_1', 'look', '{"at":')),
      says(more(0, '"sky"}')),
      says({}, 'tool_calls'),
    ]);
    expect(addedUp(events)).toMatchObject({
      content: [
        { type: 'thinking', thinking: 'Hm.' },
        { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', id: 'call_1', name: 'look', input: { at: 'sky' } },
      ],
      stop_reason: 'tool_use',
    });
  });

  it('holds a parallel call back until the input of the one before is whole', () => {
    const events = play([
      says(call(0, 'call_1', 'look')),
      says(call(1, 'call_2', 'listen')),
      says(more(1, '{"to":"her')),
      says(more(0, '{"at":"sky"')),
      says(more(1, 'd"}')),
      says(more(0, '}')),
      says({}, 'tool_calls'),
    ]);
    expect(addedUp(events).content).toEqual([
      { type: 'tool_use', id: 'call_1', name: 'look', input: { at: 'sky' } },
      { type: 'tool_use', id: 'call_2', name: 'listen', input: { to: 'herd' } },
    ]);
  });

  it('streams a call piece by piece, and does not wait for its end', () => {
    const translator = createMessageStreamTranslator(messageShell());
    translator.push(says(call(0, 'call_1', 'look')));
    expect(translator.push(says(more(0, '{"at"')))).toEqual([
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"at"' } },
    ]);
  });

  it('gives a call without arguments an empty input, and one that has no id an id', () => {
    const nameless = { tool_calls: [{ index: 0, function: { name: 'now' } }] };
    expect(addedUp(play([says(nameless), says({}, 'tool_calls')])).content).toEqual([
      { type: 'tool_use', id: 'toolu_1a2b_0', name: 'now', input: {} },
    ]);
  });

  it('passes on the extra content of a call', () => {
    const extra_content = { google: { thought_signature: 'abc' } };
    const signed = { tool_calls: [{ index: 0, id: 'a', extra_content, function: { name: 'f', arguments: '{}' } }] };
    expect(addedUp(play([says(signed), says({}, 'tool_calls')])).content).toMatchObject([{ id: 'a', extra_content }]);
  });

  it('has no content when the chunks had none', () => {
    expect(addedUp(play([says({}, 'stop')]))).toMatchObject({ content: [], stop_reason: 'end_turn' });
  });

  it.each([
    ['stop', {}, 'end_turn', null],
    ['stop', { stop_reason: 'END' }, 'stop_sequence', 'END'],
    ['stop', { matched_stop: 'END' }, 'stop_sequence', 'END'],
    ['stop', { stop_sequence: 'END' }, 'stop_sequence', 'END'],
    ['stop', { stop_reason: 32000, matched_stop: '</s>' }, 'end_turn', null],
    ['length', {}, 'max_tokens', null],
    ['content_filter', {}, 'refusal', null],
  ])('ends with finish_reason %s %j as %s', (finish, named, stop_reason, stop_sequence) => {
    const events = play([says({ content: 'hi' }), says({}, finish, named)], { stopSequences: ['END', '###'] });
    expect(addedUp(events)).toMatchObject({ stop_reason, stop_sequence });
  });

  it('reports max_tokens when an answer was cut, also in the middle of a call', () => {
    const message = addedUp(play([says(call(0, 'a', 'f', '{"x":')), says({}, 'length')]));
    expect(message).toMatchObject({ stop_reason: 'max_tokens', content: [{ input: { INVALID_JSON: '{"x":' } }] });
  });

  it('streams a refusal as text', () => {
    expect(addedUp(play([says({ refusal: 'I cannot.' }), says({}, 'stop')]))).toMatchObject({
      content: [{ type: 'text', text: 'I cannot.' }],
      stop_reason: 'refusal',
    });
  });

  it('counts cached tokens apart from the input', () => {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 30,
      prompt_tokens_details: { cached_tokens: 64, cache_write_tokens: 6 },
      completion_tokens_details: { reasoning_tokens: 12 },
    };
    expect(addedUp(play([says({ content: 'hi' }, 'stop'), { choices: [], usage }])).usage).toEqual({
      input_tokens: 30,
      cache_read_input_tokens: 64,
      cache_creation_input_tokens: 6,
      output_tokens: 30,
      output_tokens_details: { thinking_tokens: 12 },
    });
  });
});

describe("a model's thoughts", () => {
  const chunks = [
    says({ reasoning_content: 'I ' }),
    says({ reasoning_content: 'think.' }),
    says({ content: 'Yes.' }, 'stop'),
  ];

  it('are thinking blocks for a client that enabled thinking', () => {
    expect(addedUp(play(chunks)).content).toMatchObject([{ thinking: 'I think.' }, { text: 'Yes.' }]);
  });

  it('travel in the signature when their text is to be omitted', () => {
    const events = play(chunks, { thoughts: 'sealed' });
    const [block] = addedUp(events).content;
    expect(JSON.stringify(events)).not.toContain('thinking_delta');
    expect(block).toMatchObject({ type: 'thinking', thinking: '' });
    expect(thoughtIn({ ...block })).toBe('I think.');
  });

  it('are left out for a client that did not', () => {
    expect(addedUp(play(chunks, { thoughts: 'left_out' })).content).toEqual([{ type: 'text', text: 'Yes.' }]);
  });
});

describe('a whole chat completion as a message', () => {
  it('is undefined without a choice', () => {
    for (const nothing of [null, [], {}, { choices: [] }, { choices: [{}] }]) {
      expect(messageFromChat(nothing, messageShell())).toBeUndefined();
    }
  });

  it('has an object as input of a call when the model wrote another text', () => {
    const message = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'a', function: { name: 'f', arguments: '[1' } }],
    };
    const answer = messageFromChat({ choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }, messageShell());
    expect(answer?.content).toMatchObject([{ input: { INVALID_JSON: '[1' } }]);
  });
});
