import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ChatAnswerReader, ChatCompletionAnswer } from '../../../src/commands/exchange/dialects/chat/answer.ts';
import { chatReader } from '../../../src/commands/exchange/dialects/chat/chat-dialect.ts';
import { MessagesAnswer } from '../../../src/commands/exchange/dialects/messages/answer.ts';
import { ResponsesAnswer } from '../../../src/commands/exchange/dialects/responses/answer.ts';
import {
  type AnswerReader,
  AnswerStream,
  type AnswerWriter,
  write,
} from '../../../src/commands/exchange/response-stream.ts';
import { earlyEnd, streamIncomplete } from '../../../src/commands/model-request/upstream-refusals.ts';
import type { Refusal } from '../../../src/commands/refusal.ts';
import { isObject } from '../../../src/json/is-object.ts';
import { createFrameSplitter } from '../../../src/providers/stream-frames.ts';
import { countOf } from '../../support/seed.ts';

const provider = { name: 'upstream', redact: (text: string) => text.replaceAll('sk-secret', '[redacted]') };

const recorded =
  process.env['CHANCERY_RECORDED_FIXTURES'] ??
  fileURLToPath(new URL('../../../../shared/fixtures/recorded', import.meta.url));

interface Kind {
  readonly dialect: string;
  unchanged(): AnswerStream;
  translated(): AnswerStream;
  /** As a provider sends them. */
  readonly streams: Readonly<Record<string, string>>;
  readonly whole: object;
}

/** The provider's bytes pass. */
function passing(answer: AnswerReader & AnswerWriter): AnswerStream {
  return new AnswerStream(answer, answer);
}

/** Every event is read and written again, as where guardrails stand between the reader and the writer. */
function writing(reader: AnswerReader & AnswerWriter, writer: AnswerWriter): AnswerStream {
  const plain = new AnswerStream(reader, writer);
  const inner = new AnswerStream(reader, reader);
  plain.whole = (bytes, parsed) => Buffer.from(JSON.stringify(writer.writeWhole(inner.wholeAnswer(bytes, parsed))));
  plain.frame = (frame) => {
    const { events, ...read } = inner.eventsIn(frame);
    const given = events?.filter(isObject) ?? [];
    return { ...read, bytes: write(structuredClone(given), writer) };
  };
  return plain;
}

function onTheWire(events: readonly (object | string)[]): string {
  return events
    .map((event) => (typeof event === 'string' ? event : JSON.stringify(event)))
    .map((data) => `data: ${data}\n\n`)
    .join('');
}

function namedEvents(events: readonly { readonly [member: string]: unknown }[]): string {
  return events.map((event) => `event: ${event.type ?? 'error'}\ndata: ${JSON.stringify(event)}\n\n`).join('');
}

function recordedStream(name: string): Record<string, string> {
  const path = `${recorded}/${name}`;
  return existsSync(path) ? { [name]: readFileSync(path, 'utf8') } : {};
}

function chatOf(passesUsage: boolean): Pick<Kind, 'unchanged' | 'translated'> {
  return {
    unchanged: () => passing(new ChatCompletionAnswer(provider, passesUsage)),
    translated() {
      const facts = { id: 'chatcmpl-1', model: 'm', createdAt: 1 };
      return new AnswerStream(
        new ChatAnswerReader(provider, chatReader('chat', facts)),
        new ChatCompletionAnswer(provider, passesUsage),
      );
    },
  };
}

const says = (delta: object, finish: string | null = null) => ({
  id: 'chatcmpl-7',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish }],
});
const usageChunk = {
  ...says({}),
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};
const llamacpp = JSON.parse(
  readFileSync(new URL('../../translate/fixtures/llamacpp/chat.stream.json', import.meta.url), 'utf8'),
).response.body;

const chatStreams = {
  'llama.cpp': llamacpp,
  ...recordedStream('openai/chat_completion_stream.txt'),
  'with keep-alives, usage, and integers past 2^53': [
    ': keep-alive\n\n',
    onTheWire([says({ role: 'assistant', content: '' }), says({ content: 'Grüße 👋 "usage": {}' })]),
    `data: {"id":"chatcmpl-7","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"seed":12345678901234567890}]}}]}\n\n`,
    onTheWire([says({}, 'tool_calls'), usageChunk, '[DONE]']),
  ].join(''),
  'cut before its finish reason': onTheWire([says({ content: 'Half' }), '[DONE]']),
  'with an error in mid-stream': onTheWire([says({ content: 'Half' }), { error: { message: 'bad key sk-secret' } }]),
  'with an event that is no JSON': onTheWire([says({ content: 'Half' }), '{"choices":[']),
};

const message = {
  id: 'msg_7',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [],
  stop_reason: null,
  stop_sequence: null,
  usage: { input_tokens: 9, output_tokens: 1, cache_read_input_tokens: null },
};
const textDelta = (text: string) => ({
  type: 'content_block_delta',
  index: 0,
  delta: { type: 'text_delta', text },
});
const messageBegins = [
  { type: 'message_start', message },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'ping' },
  textDelta('Grüße 👋'),
];

const messageStreams = {
  ...recordedStream('anthropic/messages_stream.txt'),
  'with keep-alives, pings and an unknown event': [
    ': keep-alive\n\n',
    namedEvents([
      ...messageBegins,
      { type: 'content_block_stop', index: 0 },
      { type: 'new_thing', value: 1 },
      { type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 4 } },
      { type: 'message_stop' },
    ]),
  ].join(''),
  'with an error event': namedEvents([
    ...messageBegins,
    { type: 'error', error: { type: 'overloaded_error', message: 'busy, sk-secret' } },
    textDelta('never passed on'),
  ]),
  'with an error as OpenAI sends it': namedEvents([...messageBegins, { error: { message: 'bad key sk-secret' } }]),
  'with an event that is no JSON': `${namedEvents(messageBegins)}data: {"type":\n\n`,
};

const messagesKind: Kind = {
  dialect: 'messages',
  unchanged: () => passing(new MessagesAnswer(provider)),
  translated: () => writing(new MessagesAnswer(provider), new MessagesAnswer(provider)),
  streams: messageStreams,
  whole: { ...message, stop_reason: 'end_turn', content: [{ type: 'text', text: 'x' }] },
};

const response = { id: 'resp_7', object: 'response', status: 'in_progress', model: 'm', output: [], usage: null };
const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] };
const at = { item_id: 'msg_1', output_index: 0, content_index: 0 };
const responseBegins = [
  { type: 'response.created', response },
  { type: 'response.output_item.added', output_index: 0, item },
  { type: 'response.content_part.added', ...at, part: { type: 'output_text', text: '', annotations: [] } },
  { type: 'response.output_text.delta', ...at, delta: 'Grüße ' },
  { type: 'response.output_text.delta', ...at, delta: '👋' },
];
const numbered = (events: readonly object[]) =>
  namedEvents(events.map((event, index) => ({ ...event, sequence_number: index })));
const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
const text = { type: 'output_text', text: 'Grüße 👋', annotations: [] };
const done = { ...item, status: 'completed', content: [text] };

const responseStreams = {
  ...recordedStream('openai/responses_stream.txt'),
  'with keep-alives and an unknown event': [
    ': keep-alive\n\n',
    numbered([
      ...responseBegins,
      { type: 'response.new_thing', value: 1 },
      { type: 'response.output_item.done', output_index: 0, item: done },
      { type: 'response.completed', response: { ...response, status: 'completed', output: [done], usage } },
    ]),
    'data: [DONE]\n\n',
  ].join(''),
  'that failed with an error': numbered([
    ...responseBegins,
    {
      type: 'response.failed',
      response: { ...response, status: 'failed', error: { code: 'server_error', message: 'bad key sk-secret' } },
    },
  ]),
  'with an error event': numbered([...responseBegins, { type: 'error', code: 'x', message: 'bad key sk-secret' }]),
  'with an error as chat has it': `${numbered(responseBegins)}data: {"error":{"message":"bad key sk-secret"}}\n\n`,
  'with an event that is no JSON': `${numbered(responseBegins)}data: {"type":\n\n`,
};

/** @param providerRuns whether the provider makes the response in the background */
function responsesOf(echo: Record<string, unknown> | undefined, providerRuns: boolean): Omit<Kind, 'dialect'> {
  const shell = () => ({ id: 'resp_shell', object: 'response', output: [], ...echo });
  const options = { echo, providerRuns, shell };
  return {
    unchanged: () => passing(new ResponsesAnswer(provider, options)),
    translated: () => writing(new ResponsesAnswer(provider, options), new ResponsesAnswer(provider, options)),
    streams: responseStreams,
    whole: { ...response, status: 'completed', output: [done], usage },
  };
}

const kinds: readonly Kind[] = [
  {
    dialect: 'chat, with the usage chunk',
    ...chatOf(true),
    streams: chatStreams,
    whole: { ...says({}), choices: [{ message: { content: 'x' }, finish_reason: 'stop' }], usage: usageChunk.usage },
  },
  {
    dialect: 'chat, without the usage chunk',
    ...chatOf(false),
    streams: chatStreams,
    whole: { ...says({}), choices: [{ message: { content: 'x' }, finish_reason: 'length' }] },
  },
  messagesKind,
  { dialect: 'responses', ...responsesOf(undefined, false) },
  { dialect: 'responses, without the id of the provider', ...responsesOf({ id: 'resp_ours' }, false) },
  { dialect: 'responses that the provider makes in the background', ...responsesOf(undefined, true) },
];

interface Answered {
  readonly bytes: Buffer;
  readonly facts: Record<string, unknown>;
}

type Ending = ReturnType<AnswerStream['finish']>;

const finished = (stream: AnswerStream): Ending => stream.finish();
const endings: readonly ((stream: AnswerStream) => Ending)[] = [
  finished,
  (stream) => ({ bytes: stream.broken(streamIncomplete(provider.name)), cut: true }),
  (stream) => ({ bytes: stream.abandon(earlyEnd('gateway_stopping')), cut: true }),
  (stream) => ({ bytes: stream.abandon(earlyEnd('cancelled')), cut: true }),
];

function factsOf({ reader, writer }: AnswerStream) {
  const { answerId } = reader;
  const { finishReason } = writer;
  return {
    ...{ usage: reader.usage(), answerId, finishReason },
    ...{ deferredWork: reader.deferredWork?.(), response: writer.response?.() },
  };
}

/** The client's stream and its record, as the exchange makes them of a provider's pieces. */
function answered(
  stream: AnswerStream,
  pieces: readonly Buffer[],
  ending: (stream: AnswerStream) => Ending = finished,
): Answered {
  const splitter = createFrameSplitter();
  const frames = [...pieces.flatMap((piece) => splitter.push(piece)), splitter.end()];
  const bytes: Buffer[] = [];
  let refusal: Refusal | undefined;
  for (const frame of frames) {
    if (frame === undefined || refusal !== undefined) continue;
    const answer = stream.frame(frame);
    refusal = answer.refusal;
    if (answer.bytes !== undefined) bytes.push(answer.bytes);
    if (answer.record !== undefined) expect(answer.record.toString()).not.toContain('sk-secret');
  }
  const { bytes: last, cut } = refusal === undefined ? ending(stream) : { bytes: stream.broken(refusal), cut: true };
  const facts = {
    cut,
    refusal: refusal?.envelope(),
    ...factsOf(stream),
  };
  const client = Buffer.concat([...bytes, ...(last === undefined ? [] : [last])]);
  expect(client.toString()).not.toContain('sk-secret');
  return { bytes: client, facts };
}

/**
 * What a client reads: comments mean nothing, and the name of an event is its `type`. Responses that are written end
 * with `[DONE]`, which few providers send.
 */
function eventsIn(bytes: Buffer): unknown[] {
  const data = createFrameSplitter()
    .push(bytes)
    .flatMap((frame) => (frame.data === undefined ? [] : [frame.data]));
  const isResponse = data.some((one) => one.includes('"response.'));
  return data.flatMap((one) => (one === '[DONE]' ? (isResponse ? [] : [one]) : [JSON.parse(one)]));
}

function inPieces(bytes: Buffer, sizes: Iterable<number>): Buffer[] {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const size of sizes) {
    if (at >= bytes.length) break;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

const sizes = fc.infiniteStream(fc.integer({ min: 1, max: 200 }));

describe.each(kinds)('$dialect', ({ unchanged, translated, streams, whole }) => {
  describe.each(Object.entries(streams))('stream %s', (_name, text) => {
    const stream = Buffer.from(text);

    it('gives the same events unchanged and translated, however it is cut into pieces', () => {
      fc.assert(
        fc.property(sizes, (lengths) => {
          const pieces = inPieces(stream, lengths);
          const passed = answered(unchanged(), pieces);
          const written = answered(translated(), pieces);
          expect(eventsIn(written.bytes)).toEqual(eventsIn(passed.bytes));
          expect(written.facts).toEqual(passed.facts);
          expect(passed.bytes).toEqual(answered(unchanged(), [stream]).bytes);
        }),
        { numRuns: countOf(10, 40) },
      );
    });

    it('ends alike, however it ends before its last event', () => {
      const frames = createFrameSplitter().push(stream);
      for (let count = 0; count < frames.length; count += 1) {
        const pieces = frames.slice(0, count).map(({ raw }) => raw);
        for (const ending of endings) {
          const passed = answered(unchanged(), pieces, ending);
          const written = answered(translated(), pieces, ending);
          expect(eventsIn(written.bytes)).toEqual(eventsIn(passed.bytes));
          expect(written.facts).toEqual(passed.facts);
        }
      }
    });
  });

  it('gives the same whole answer', () => {
    const bytes = Buffer.from(JSON.stringify(whole));
    const [passed, written] = [unchanged(), translated()];
    expect(written.whole(bytes, JSON.parse(bytes.toString())).toString()).toBe(
      passed.whole(bytes, JSON.parse(bytes.toString())).toString(),
    );
    expect(factsOf(written)).toEqual(factsOf(passed));
    expect(passed.reader.usage().source === 'provider').toBe('usage' in whole);
  });
});

describe.each(kinds.filter(({ dialect }) => !dialect.includes('without')))('$dialect', ({ unchanged, streams }) => {
  const whole = Object.entries(streams).filter(([name]) => !/error|no JSON|cut/.test(name));

  it.each(whole)('passes the bytes of %s unchanged', (_name, stream) => {
    const { bytes } = answered(unchanged(), [Buffer.from(stream)]);
    // A recording may lack the blank line behind its last event.
    expect(bytes.toString()).toBe(stream.endsWith('\n\n') ? stream : `${stream}\n`);
  });
});

describe('responses', () => {
  it('names the gateway’s id in every response object, unchanged and translated', () => {
    const stream = Buffer.from(responseStreams['with keep-alives and an unknown event']);
    const { unchanged, translated } = responsesOf({ id: 'resp_ours' }, false);
    for (const answer of [unchanged(), translated()]) {
      const { bytes, facts } = answered(answer, [stream]);
      expect(bytes.toString().match(/"id":"resp_\w+"/g)).toEqual(['"id":"resp_ours"', '"id":"resp_ours"']);
      expect(facts).toMatchObject({ answerId: 'resp_7', response: { id: 'resp_ours' } });
    }
  });
});

describe('chat', () => {
  it('passes no end marker before a finish reason', () => {
    const stream = Buffer.from(chatStreams['cut before its finish reason']);
    const { bytes, facts } = answered(chatOf(true).unchanged(), [stream]);
    expect(bytes.toString()).not.toContain('[DONE]');
    expect(facts['cut']).toBe(true);
  });

  it('writes integers past 2^53 digit by digit', () => {
    const stream = Buffer.from(chatStreams['with keep-alives, usage, and integers past 2^53']);
    expect(answered(chatOf(true).translated(), [stream]).bytes.toString()).toContain('"seed":12345678901234567890}');
  });
});
