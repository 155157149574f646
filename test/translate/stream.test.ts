import { describe, expect, it } from 'vitest';
import type { ResponseEvent } from '../../src/providers/translate/chat-to-responses/response-object.ts';
import { createChatStreamTranslator } from '../../src/providers/translate/chat-to-responses/stream.ts';
import { END_MARKER, encodeEvent } from '../../src/providers/translate/json.ts';
import { checkStream } from './openai-shape.ts';
import { completedAt, shellFor } from './shells.ts';

const end = { completedAt, endMarker: true };
const cutOff = { completedAt, endMarker: false };

const says = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }],
});
const text = (content: string) => says({ content });
const callChunk = (index: number, more: object) => says({ tool_calls: [{ index, ...more }] });
const stop = says({}, 'stop');

/** The events of a stream that ends in an orderly way, checked against every rule for streams. */
function play(chunks: readonly unknown[], shell = shellFor(), how = end): ResponseEvent[] {
  const translator = createChatStreamTranslator(shell);
  const events = [...chunks.flatMap((chunk) => translator.push(chunk)), ...translator.finish(how)];
  expect(checkStream(events)).toEqual(translator.snapshot());
  return events;
}

const typesOf = (events: readonly ResponseEvent[]) => events.map((event) => event.type.replace('response.', ''));
const last = (events: readonly ResponseEvent[]) => {
  const event = events.at(-1);
  if (event === undefined || !('response' in event)) throw new Error('the stream has no terminal event');
  return event.response;
};

describe('a chat stream becomes a Responses stream', () => {
  it('of a text', () => {
    const events = play([says({ role: 'assistant', content: '' }), text('Hel'), text('lo'), stop]);
    expect(typesOf(events)).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ]);
    expect(last(events)).toMatchObject({ status: 'completed', completed_at: completedAt, usage: null });
  });

  it('that begins with the first chunk, before any content', () => {
    const translator = createChatStreamTranslator(shellFor());
    expect(typesOf(translator.push(says({ role: 'assistant' })))).toEqual(['created', 'in_progress']);
    expect(translator.push(says({}))).toEqual([]);
  });

  it('of reasoning and then text, one done before the other', () => {
    const events = play([says({ reasoning_content: 'H' }), says({ reasoning_content: 'm.' }), text('Yes.'), stop]);
    expect(typesOf(events).slice(2, 12)).toEqual([
      'output_item.added',
      'reasoning_summary_part.added',
      'reasoning_summary_text.delta',
      'reasoning_summary_text.delta',
      'reasoning_summary_text.done',
      'reasoning_summary_part.done',
      'output_item.done',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
    ]);
  });

  it('of a text and then a tool call', () => {
    const events = play([
      text('Let me see.'),
      callChunk(0, { id: 'call_a', type: 'function', function: { name: 'f', arguments: '' } }),
      callChunk(0, { function: { arguments: '{"x"' } }),
      callChunk(0, { function: { arguments: ':1}' } }),
      says({}, 'tool_calls'),
    ]);
    expect(typesOf(events).slice(5)).toEqual([
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
      'completed',
    ]);
    expect(last(events).output[1]).toMatchObject({ call_id: 'call_a', arguments: '{"x":1}' });
  });

  it('of parallel tool calls whose pieces come mixed', () => {
    const events = play([
      callChunk(0, { id: 'a', function: { name: 'f', arguments: '{' } }),
      callChunk(1, { id: 'b', function: { name: 'g', arguments: '[' } }),
      callChunk(0, { function: { arguments: '}' } }),
      callChunk(1, { function: { arguments: ']' } }),
      says({}, 'tool_calls'),
    ]);
    expect(last(events).output).toMatchObject([
      { call_id: 'a', name: 'f', arguments: '{}' },
      { call_id: 'b', name: 'g', arguments: '[]' },
    ]);
  });

  it.each([
    [
      'whole, all with index 0',
      [
        callChunk(0, { id: 'a', function: { name: 'f', arguments: '{}' } }),
        callChunk(0, { id: 'b', function: { name: 'g', arguments: '[]' } }),
      ],
    ],
    [
      'whole, without an index',
      [
        says({ tool_calls: [{ id: 'a', function: { name: 'f', arguments: '{}' } }] }),
        says({ tool_calls: [{ id: 'b', function: { name: 'g', arguments: '[]' } }] }),
      ],
    ],
    [
      'with the name repeated in each piece',
      [
        callChunk(0, { id: 'a', function: { name: 'f', arguments: '{' } }),
        callChunk(0, { id: 'a', function: { name: 'f', arguments: '}' } }),
        callChunk(1, { id: 'b', function: { name: 'g', arguments: '[]' } }),
      ],
    ],
    [
      'with arguments before the name',
      [
        callChunk(0, { function: { arguments: '{' } }),
        callChunk(0, { id: 'a', function: { name: 'f', arguments: '}' } }),
        callChunk(1, { id: 'b', function: { name: 'g', arguments: '[]' } }),
      ],
    ],
  ])('of tool calls as odd servers send them: %s', (_name, chunks) => {
    const { output } = last(play([...chunks, says({}, 'tool_calls')]));
    expect(output).toMatchObject([
      { call_id: 'a', name: 'f', arguments: '{}' },
      { call_id: 'b', name: 'g', arguments: '[]' },
    ]);
  });

  it('of a custom tool call, whose input is sent once it is whole', () => {
    const shell = shellFor({ tools: [{ type: 'custom', name: 'patch' }] });
    const events = play(
      [
        callChunk(0, { id: 'a', function: { name: 'patch', arguments: '{"input":' } }),
        callChunk(0, { function: { arguments: '"hi"}' } }),
        says({}, 'tool_calls'),
      ],
      shell,
    );
    expect(typesOf(events).slice(2)).toEqual([
      'output_item.added',
      'custom_tool_call_input.delta',
      'custom_tool_call_input.done',
      'output_item.done',
      'completed',
    ]);
    expect(last(events).output).toMatchObject([{ type: 'custom_tool_call', input: 'hi' }]);
  });

  it('of a refusal', () => {
    const events = play([says({ refusal: 'I will ' }), says({ refusal: 'not.' }), stop]);
    expect(typesOf(events).slice(3, 7)).toEqual([
      'content_part.added',
      'refusal.delta',
      'refusal.delta',
      'refusal.done',
    ]);
    expect(last(events).output).toMatchObject([{ content: [{ type: 'refusal', refusal: 'I will not.' }] }]);
  });

  it('of a text that turns into a refusal', () => {
    const { output } = last(play([text('Well. '), says({ refusal: 'No.' }), stop]));
    expect(output).toMatchObject([{ content: [{ text: 'Well. ' }, { refusal: 'No.' }] }]);
  });

  it('of text after a tool call, as a message of its own', () => {
    const events = play([
      text('First.'),
      callChunk(0, { id: 'a', function: { name: 'f', arguments: '{}' } }),
      text('Then.'),
      stop,
    ]);
    expect(last(events).output).toMatchObject([
      { id: 'msg_1a2b_0', content: [{ text: 'First.' }] },
      { id: 'fc_1a2b_1' },
      { id: 'msg_1a2b_2', content: [{ text: 'Then.' }] },
    ]);
  });

  it('of thinking between texts, as items of their own', () => {
    const { output } = last(play([text('a'), says({ reasoning: 'hm' }), text('b'), stop]));
    expect(output.map((item) => item.type)).toEqual(['message', 'reasoning', 'message']);
  });

  it('with citations in the order they come, also before the text', () => {
    const citation = { type: 'url_citation', url: 'https://x', title: 'X', start_index: 0, end_index: 2 };
    const events = play([says({ annotations: [citation] }), text('Hi'), says({ annotations: [citation] }), stop]);
    expect(typesOf(events).filter((type) => type === 'output_text.annotation.added')).toHaveLength(2);
    expect(last(events).output).toMatchObject([{ content: [{ annotations: [citation, citation] }] }]);
  });

  it('with log probabilities on the deltas and on the whole', () => {
    const logprob = (token: string) => ({ token, logprob: -1, bytes: [1], top_logprobs: [] });
    const chunk = (token: string) => ({
      choices: [{ index: 0, delta: { content: token }, logprobs: { content: [logprob(token)] }, finish_reason: null }],
    });
    const trailing = {
      choices: [{ index: 0, delta: {}, logprobs: { content: [logprob('</s>')] }, finish_reason: 'stop' }],
    };
    const events = play([chunk('a'), chunk('b'), trailing]);
    expect(events.flatMap((event) => (event.type === 'response.output_text.delta' ? [event.logprobs] : []))).toEqual([
      [logprob('a')],
      [logprob('b')],
      [logprob('</s>')],
    ]);
    expect(last(events).output).toMatchObject([
      { content: [{ logprobs: [{ token: 'a' }, { token: 'b' }, { token: '</s>' }] }] },
    ]);
  });

  it('with the usage of the last chunk, which has no choice', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    expect(last(play([text('Hi'), stop, { choices: [], usage }])).usage).toMatchObject({
      input_tokens: 3,
      raw_usage: usage,
    });
  });

  it('with the usage of the earlier chunk when later ones have null', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    expect(
      last(
        play([
          { ...text('Hi'), usage },
          { ...stop, usage: null },
        ]),
      ).usage,
    ).toMatchObject({ input_tokens: 3 });
  });

  it('of a tool call that never got a name, whose arguments are not lost', () => {
    const { output } = last(play([callChunk(0, { id: 'a', function: { arguments: '{"x":1}' } }), stop]));
    expect(output).toMatchObject([{ type: 'function_call', call_id: 'a', name: '', arguments: '{"x":1}' }]);
  });

  it('of the first choice only', () => {
    const other = { choices: [{ index: 1, delta: { content: 'two' }, finish_reason: 'stop' }] };
    expect(last(play([text('one'), other, stop])).output).toMatchObject([{ content: [{ text: 'one' }] }]);
  });

  it('and ignores data that is no chunk', () => {
    expect(last(play([null, 7, 'x', [], { choices: 'x' }, text('Hi'), stop])).output).toHaveLength(1);
  });
});

describe('the end of a stream', () => {
  it.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ])('is incomplete after %s, and so is the last item', (finish, reason) => {
    const events = play([says({ reasoning_content: 'Hm.' }), text('Hel'), says({}, finish)]);
    expect(events.at(-1)?.type).toBe('response.incomplete');
    expect(last(events).incomplete_details).toEqual({ reason });
    expect(last(events).output.map((item) => item.status)).toEqual(['completed', 'incomplete']);
  });

  it('fails when the provider closed without a finish reason and without its end marker', () => {
    expect(last(play([text('Hel')], shellFor(), cutOff))).toMatchObject({
      status: 'failed',
      incomplete_details: null,
      error: { type: 'provider_error', code: 'stream_incomplete' },
    });
  });

  it('is completed when there was an end marker, or a finish reason', () => {
    expect(last(play([text('Hello')])).status).toBe('completed');
    expect(last(play([text('Hello'), stop], shellFor(), cutOff)).status).toBe('completed');
  });

  it('of a stream without content is an empty message', () => {
    expect(last(play([stop])).output).toMatchObject([{ type: 'message', content: [{ text: '' }] }]);
  });

  it('of a stream without a single chunk still has all its events', () => {
    expect(typesOf(play([], shellFor(), cutOff))).toEqual(['created', 'in_progress', 'error', 'failed']);
  });

  it('leaves arguments that were cut off unchanged', () => {
    const chunks = [callChunk(0, { id: 'a', function: { name: 'f', arguments: '{"x":' } }), says({}, 'length')];
    expect(last(play(chunks)).output).toMatchObject([{ arguments: '{"x":', status: 'incomplete' }]);
  });

  it('comes once: later chunks give no events', () => {
    const translator = createChatStreamTranslator(shellFor());
    translator.push(text('Hi'));
    expect(translator.ended).toBeUndefined();
    translator.finish(end);
    expect(translator.ended).toBe('response.completed');
    const after = [
      ...translator.push(text('more')),
      ...translator.finish(end),
      ...translator.fail({ type: 'internal_error', code: 'x', message: 'x' }),
    ];
    expect(after).toEqual([]);
  });

  it('can be a cancellation, which clients read as a failure', () => {
    const translator = createChatStreamTranslator(shellFor());
    const cancelled = { type: 'invalid_request_error', code: 'response_cancelled', message: 'It was cancelled.' };
    const events = [...translator.push(text('Hel')), ...translator.fail(cancelled, 'cancelled')];
    expect(events.at(-2)).toMatchObject({ type: 'error', code: 'response_cancelled' });
    expect(checkStream(events)).toMatchObject({
      status: 'cancelled',
      error: null,
      incomplete_details: null,
      output: [{ status: 'incomplete', content: [{ text: 'Hel' }] }],
    });
  });
});

describe('a failure in mid-stream', () => {
  const failure = { type: 'provider_error', code: 'stream_broken', message: 'It broke.', provider: 'local' };

  it('is an error event, flat and nested, and then response.failed with the output so far', () => {
    const translator = createChatStreamTranslator(shellFor());
    const events = [...translator.push(text('Hel')), ...translator.fail(failure)];
    const response = checkStream(events);
    expect(events.at(-2)).toEqual({
      type: 'error',
      sequence_number: 5,
      code: 'stream_broken',
      message: 'It broke.',
      param: null,
      error: { ...failure, param: null },
    });
    expect(response).toMatchObject({
      status: 'failed',
      error: { type: 'provider_error', code: 'stream_broken', message: 'It broke.' },
      output: [{ status: 'incomplete', content: [{ text: 'Hel' }] }],
    });
    expect(translator.ended).toBe('response.failed');
  });

  it('before the first chunk still begins with response.created', () => {
    const events = createChatStreamTranslator(shellFor()).fail(failure);
    checkStream(events);
    expect(typesOf(events)).toEqual(['created', 'in_progress', 'error', 'failed']);
  });

  it.each([
    [{ code: 500, message: 'boom', type: 'server_error' }, 'provider_error', 'provider_error', 'boom'],
    [{ code: 'overloaded', message: 'busy' }, 'provider_error', 'overloaded', 'busy'],
    [{ code: 429, message: 'slow down' }, 'rate_limit_error', 'rate_limit_exceeded', 'slow down'],
    [
      { code: 400, type: 'exceed_context_size_error', message: 'too long' },
      'provider_error',
      'context_length_exceeded',
      'too long',
    ],
    ['boom', 'provider_error', 'provider_error', 'boom'],
  ])('can come as a chunk: %j', (error, type, code, message) => {
    const translator = createChatStreamTranslator(shellFor());
    const events = [...translator.push(text('Hel')), ...translator.push({ error })];
    checkStream(events);
    expect(events.at(-2)).toMatchObject({ code, message, error: { type, provider: 'local' } });
    expect(translator.ended).toBe('response.failed');
  });

  it.each([
    ['Slow down.', 1.46, 'Slow down. Please try again in 1.5s.'],
    ['Slow down', 20, 'Slow down. Please try again in 20s.'],
    ['Slow down.', undefined, 'Slow down.'],
    ['Please try again in 3s.', 20, 'Please try again in 3s.'],
  ])('of a rate limit has the delay in its message for clients: %s after %s s', (said, after, message) => {
    const limited = { type: 'rate_limit_error', code: 'requests', message: said, retryAfterSeconds: after };
    const events = createChatStreamTranslator(shellFor()).fail(limited);
    expect(checkStream(events).error).toEqual({ type: 'rate_limit_error', code: 'rate_limit_exceeded', message });
    expect(events.at(-2)).toMatchObject({ code: 'rate_limit_exceeded', message });
  });

  it('of a quota that is used up keeps its code, since waiting does not help', () => {
    const used = { type: 'rate_limit_error', code: 'insufficient_quota', message: 'Pay.', retryAfterSeconds: 5 };
    const { error } = checkStream(createChatStreamTranslator(shellFor()).fail(used));
    expect(error).toMatchObject({ code: 'insufficient_quota', message: 'Pay.' });
  });

  it('without a code has the code of its type', () => {
    const events = createChatStreamTranslator(shellFor()).fail({ type: 'internal_error', code: null, message: 'x' });
    expect(checkStream(events).error?.code).toBe('internal_error');
  });

  it('can be the finish reason', () => {
    const { error, output } = last(play([text('Hel'), says({}, 'error')]));
    expect(error).toMatchObject({ type: 'provider_error', message: expect.stringContaining("'local'") });
    expect(output).toMatchObject([{ content: [{ text: 'Hel' }] }]);
  });

  it('is not found in a chunk whose error is null', () => {
    expect(last(play([{ ...text('Hi'), error: null }, stop])).status).toBe('completed');
  });
});

describe('a snapshot', () => {
  it('shows the current state of the response', () => {
    const translator = createChatStreamTranslator(shellFor());
    expect(translator.snapshot()).toEqual(shellFor());
    translator.push(says({ reasoning: 'Hm.' }));
    translator.push(text('Hel'));
    expect(translator.snapshot()).toMatchObject({
      status: 'in_progress',
      output: [
        { type: 'reasoning', status: 'completed' },
        { type: 'message', status: 'incomplete', content: [{ text: 'Hel' }] },
      ],
    });
  });

  it('is not changed by later chunks, nor are events', () => {
    const citation = { type: 'url_citation', url: 'https://x', title: 'X', start_index: 0, end_index: 2 };
    const translator = createChatStreamTranslator(shellFor());
    const events = translator.push(text('Hel'));
    const snapshot = translator.snapshot();
    const before = JSON.stringify([events, snapshot]);
    translator.push(says({ content: 'lo', annotations: [citation] }));
    translator.finish(end);
    expect(JSON.stringify([events, snapshot])).toBe(before);
  });
});

describe('on the wire', () => {
  it('an event is one buffer with its name, its JSON and its blank line', () => {
    const [created] = play([stop]);
    if (created === undefined) throw new Error('no event');
    expect(encodeEvent(created, true).toString()).toBe(`event: response.created\ndata: ${JSON.stringify(created)}\n\n`);
  });

  it('line breaks in a text stay inside the one data line', () => {
    const delta = play([text('a\n\nb\r\nc'), stop]).find((event) => event.type === 'response.output_text.delta');
    if (delta === undefined) throw new Error('no delta');
    expect(encodeEvent(delta, true).toString().split('\n')).toHaveLength(4);
  });

  it('the end marker is the last', () => {
    expect(encodeEvent(END_MARKER, true).toString()).toBe('data: [DONE]\n\n');
  });
});
