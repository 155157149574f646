import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isObject } from '../../src/json/is-object.ts';
import { createSplitter } from '../../src/providers/stream-frames.ts';
import { completionOf, ParallelReader } from '../../src/providers/translate/chat-adapter.ts';
import { MessagesAnswerReader } from '../../src/providers/translate/chat-to-messages/reader.ts';
import { messagesRequestFromChat } from '../../src/providers/translate/chat-to-messages/request.ts';
import type { JsonObject } from '../../src/providers/translate/json.ts';
import type { Answered } from '../support/answered.ts';
import { countOf } from '../support/seed.ts';

/** As the provider reads it: integers past 2^53 are objects of their own until then. */
const sent = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

const facts = { id: 'chatcmpl-1', model: 'm', createdAt: 1 };
const text = fc.string({ unit: 'grapheme', minLength: 1 });
const object = fc
  .dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 1 }), {
    maxKeys: 3,
    noNullPrototype: true,
  })
  // JSON writes -0 as 0.
  .map((value) => JSON.parse(JSON.stringify(value)));

const block: fc.Arbitrary<JsonObject> = fc.oneof(
  text.map((value) => ({ type: 'text', text: value })),
  fc.tuple(text, fc.uuid()).map(([thinking, signature]) => ({ type: 'thinking', thinking, signature })),
  fc.uuid().map((data) => ({ type: 'redacted_thinking', data })),
  fc.tuple(fc.uuid(), object).map(([id, input]) => ({ type: 'tool_use', id, name: 'f', input })),
);
const count = fc.nat(1_000_000);
const message = fc.record({
  id: fc.constant('msg_1'),
  type: fc.constant('message'),
  role: fc.constant('assistant'),
  content: fc.array(block, { maxLength: 6 }),
  stop_reason: fc.constantFrom('end_turn', 'max_tokens', 'tool_use', 'refusal', 'stop_sequence'),
  stop_sequence: fc.option(fc.string({ minLength: 1 })),
  usage: fc.record({ input_tokens: count, output_tokens: count, cache_read_input_tokens: count }),
});

/** The message as Anthropic streams it, its deltas cut at the given places. */
function streamed(whole: JsonObject & { content: JsonObject[] }, cut: () => number): string {
  const { content, stop_reason, stop_sequence, usage, ...rest } = whole;
  const events: JsonObject[] = [
    { type: 'message_start', message: { ...rest, content: [], usage: { ...Object(usage), output_tokens: 1 } } },
  ];
  for (const [index, given] of content.entries()) {
    const deltas: JsonObject[] = [];
    let empty = given;
    const add = (type: string, member: string, value: unknown) => {
      for (const piece of pieces(String(value), cut)) deltas.push({ type, [member]: piece });
    };
    if (given['type'] === 'text') {
      empty = { type: 'text', text: '' };
      add('text_delta', 'text', given['text']);
    } else if (given['type'] === 'thinking') {
      empty = { type: 'thinking', thinking: '', signature: '' };
      add('thinking_delta', 'thinking', given['thinking']);
      deltas.push({ type: 'signature_delta', signature: given['signature'] });
    } else if (given['type'] === 'tool_use') {
      empty = { ...given, input: {} };
      if (Object.keys(Object(given['input'])).length > 0)
        add('input_json_delta', 'partial_json', JSON.stringify(given['input']));
    }
    events.push({ type: 'content_block_start', index, content_block: empty }, { type: 'ping' });
    for (const delta of deltas) events.push({ type: 'content_block_delta', index, delta });
    events.push({ type: 'content_block_stop', index });
  }
  events.push({ type: 'message_delta', delta: { stop_reason, stop_sequence }, usage }, { type: 'message_stop' });
  return events.map((event) => `event: ${String(event['type'])}\ndata: ${JSON.stringify(event)}\n\n`).join('');
}

function pieces(value: string, cut: () => number): string[] {
  const parts: string[] = [];
  const characters = [...value];
  while (characters.length > 0) parts.push(characters.splice(0, 1 + (cut() % 4)).join(''));
  return parts;
}

function read(bytes: Buffer, cut: () => number): JsonObject[] {
  const reader = new MessagesAnswerReader(facts);
  const splitter = createSplitter('events', { maxFrameBytes: 1 << 20 });
  const chunks: JsonObject[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + cut();
    for (const { data } of splitter.push(bytes.subarray(at, at + size))) {
      if (data !== undefined) chunks.push(...(reader.chunks(data) ?? []));
    }
    at += size;
  }
  expect(reader.ended).toBe(true);
  return chunks;
}

/** The streams as parallel calls, their events in any order among each other. */
function inParallel(streams: readonly string[], pick: () => number): JsonObject[] {
  const reader = new ParallelReader(facts, streams.length, (own) => new MessagesAnswerReader(own));
  const rest = streams.map((stream, call) => ({
    call: String(call),
    data: [...stream.matchAll(/^data: ([^\n]*)$/gm)].map(([, data = '']) => data),
  }));
  const chunks: JsonObject[] = [];
  for (;;) {
    const open = rest.filter(({ data }) => data.length > 0);
    const next = open[pick() % Math.max(1, open.length)];
    if (next === undefined) break;
    chunks.push(...(reader.chunks(next.data.shift() ?? '', next.call) ?? []));
    if (next.data.length === 0) expect(reader.endOfCall(`${next.call} ended`)).toEqual([]);
  }
  expect(reader.ended).toBe(true);
  return chunks;
}

const cuts = fc.infiniteStream(fc.nat(40));
const cutter = (numbers: Iterator<number>) => () => Number(numbers.next().value);

describe('an answer of the Messages API', () => {
  it('reads the same for any pieces of its stream', () => {
    fc.assert(
      fc.property(message, cuts, cuts, (whole, deltas, network) => {
        const bytes = Buffer.from(streamed(whole, cutter(deltas)));
        expect(read(bytes, cutter(network))).toEqual(read(bytes, () => bytes.length));
      }),
      { numRuns: countOf(50, 200) },
    );
  });

  it('is the same completion, whole and streamed', () => {
    fc.assert(
      fc.property(message, cuts, (whole, deltas) => {
        const bytes = Buffer.from(streamed(whole, cutter(deltas)));
        expect(completionOf(read(bytes, () => bytes.length))).toEqual(new MessagesAnswerReader(facts).whole(whole));
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('of parallel calls has the chunks of each answer under its index, and one sum of usage at its end', () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 2, maxLength: 4 }), cuts, cuts, (answers, deltas, order) => {
        const streams = answers.map((whole) => streamed(whole, cutter(deltas)));
        const chunks = inParallel(streams, cutter(order));
        const alone = streams.map((stream) => read(Buffer.from(stream), () => stream.length * 4));
        const usages = alone.map((of) => Object(of.at(-1)?.['usage']));
        const total = (name: string) => usages.reduce((sum, usage) => sum + usage[name], 0);
        expect(chunks.at(-1)).toMatchObject({
          ...{ id: facts.id, choices: [] },
          usage: Object.fromEntries(
            ['prompt_tokens', 'completion_tokens', 'total_tokens'].map((name) => [name, total(name)]),
          ),
        });
        expect(chunks.filter(({ usage }) => usage !== undefined)).toHaveLength(1);
        const reader = new ParallelReader(facts, streams.length, (own) => new MessagesAnswerReader(own));
        const { choices, usage } = reader.whole({ calls: answers }) as { choices: JsonObject[]; usage: unknown };
        expect(usage).toEqual(chunks.at(-1)?.['usage']);
        for (const [index, own] of alone.entries()) {
          const mine = chunks.filter(({ choices: [choice] }: Answered) => choice?.index === index);
          const expected = own.filter(({ choices: [choice] }: Answered) => choice !== undefined);
          expect(mine.map(({ choices: [{ index: _, ...choice }] }: Answered) => choice)).toEqual(
            expected.map(({ choices: [{ index: _, ...choice }] }: Answered) => choice),
          );
          const {
            choices: [whole],
          } = new MessagesAnswerReader(facts).whole(answers[index]) as Answered;
          expect(choices[index]).toEqual({ ...whole, index });
        }
      }),
      { numRuns: countOf(25, 100) },
    );
  });

  it('given back as a message becomes the same turn: thoughts, text and calls in their places', () => {
    fc.assert(
      fc.property(message, (whole) => {
        const completion = new MessagesAnswerReader(facts).whole(whole);
        const [choice] = (completion as { choices: { message: JsonObject }[] }).choices;
        const user = { role: 'user', content: 'x' };
        const request = messagesRequestFromChat(
          { messages: [user, choice?.message, user] },
          { model: 'm', stream: false, options: {} },
        );
        if (!request.ok) throw new Error(request.refusal.message);
        const [, turn] = request.body['messages'] as { role: string; content: unknown }[];
        const back = turn?.role === 'assistant' ? turn.content : [];
        const blocks = typeof back === 'string' ? [{ type: 'text', text: back }] : (back as JsonObject[]);
        expect(sent(joined(blocks))).toEqual(inOrder(whole.content));
      }),
      { numRuns: countOf(75, 300) },
    );
  });
});

describe('a chat completion request', () => {
  const call = fc.tuple(fc.uuid(), object).map(([id, args]) => ({
    id,
    type: 'function',
    function: { name: 'f', arguments: JSON.stringify(args) },
  }));
  const turn = fc.oneof(
    text.map((content) => [{ role: 'user', content }]),
    text.map((content) => [{ role: 'system', content }]),
    fc
      .tuple(text, fc.array(call, { maxLength: 3 }), text)
      .map(([content, tool_calls, result]) => [
        { role: 'assistant', content, tool_calls },
        ...tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: result })),
      ]),
  );

  it('keeps its texts, calls and results, in turns that alternate, with every result right after its call', () => {
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 8 }), (turns) => {
        const messages: JsonObject[] = [{ role: 'user', content: 'start' }, ...turns.flat()];
        const request = messagesRequestFromChat({ messages }, { model: 'm', stream: false, options: {} });
        if (!request.ok) throw new Error(request.refusal.message);
        const said = (request.body['messages'] as { role: string; content: unknown }[]).map(({ role, content }) => ({
          role,
          blocks: typeof content === 'string' ? [{ type: 'text', text: content }] : (content as JsonObject[]),
        }));
        for (const [index, { role, blocks }] of said.entries()) {
          expect(role).toBe(index % 2 === 0 ? 'user' : 'assistant');
          const calls = blocks.filter(({ type }) => type === 'tool_use').map(({ id }) => id);
          if (calls.length === 0) continue;
          const results = said[index + 1]?.blocks.slice(0, calls.length).map(({ tool_use_id }) => tool_use_id);
          expect(results?.toSorted()).toEqual(calls.toSorted());
        }
        const blocks = said.flatMap(({ blocks }) => blocks);
        const texts = blocks.filter(({ type }) => type === 'text').map((one) => one['text']);
        expect(texts).toEqual(
          messages.filter(({ role }) => role === 'user' || role === 'assistant').map(({ content }) => content),
        );
        expect(sent(blocks.filter(({ type }) => type === 'tool_use').map(({ id, input }) => ({ id, input })))).toEqual(
          messages.flatMap(({ tool_calls }) =>
            ((tool_calls ?? []) as { id: string; function: { arguments: string } }[]).map(
              ({ id, function: called }) => ({
                id,
                input: JSON.parse(called.arguments),
              }),
            ),
          ),
        );
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('never makes the translator throw, for any JSON', () => {
    const role = fc.constantFrom('user', 'assistant', 'system', 'tool', 'developer', 'x');
    const odd = fc.record(
      { role, content: fc.jsonValue(), tool_calls: fc.jsonValue(), extra_content: fc.jsonValue() },
      { requiredKeys: [] },
    );
    const chat = fc.record(
      {
        messages: fc.oneof(fc.array(odd), fc.jsonValue()),
        tools: fc.jsonValue(),
        tool_choice: fc.jsonValue(),
        reasoning: fc.jsonValue(),
        response_format: fc.jsonValue(),
        stop: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(chat, (request) => {
        const result = messagesRequestFromChat(request, { model: 'm', stream: true, options: {} });
        expect(isObject(result.ok ? result.body : result.refusal)).toBe(true);
      }),
      { numRuns: countOf(125, 500) },
    );
  });
});

/** Neighbouring texts as one: the places where a text was cut do not count. */
function joined(blocks: readonly JsonObject[]): JsonObject[] {
  const result: JsonObject[] = [];
  for (const one of blocks) {
    const last = result.at(-1);
    if (one['type'] === 'text' && last?.['type'] === 'text') {
      result.splice(-1, 1, { ...last, text: `${String(last['text'])}${String(one['text'])}` });
    } else result.push(one);
  }
  return result;
}

/** A chat message holds its text before its calls, and thinking stands with the call that follows it. */
function inOrder(content: readonly JsonObject[]): JsonObject[] {
  const firstCall = content.findIndex(({ type }) => type === 'tool_use');
  if (firstCall === -1) return joined(content);
  const before = content.slice(0, firstCall);
  const after = content.slice(firstCall);
  const lastCall = after.findLastIndex(({ type }) => type === 'tool_use');
  const late = after.slice(0, lastCall + 1);
  const texts = after.filter(({ type }) => type === 'text');
  const trailing = after.slice(lastCall + 1).filter(({ type }) => type !== 'text');
  // Texts after a call move before the calls; thoughts after the last call follow the text they came after.
  const tail: JsonObject[] = [];
  for (const one of after) if (texts.includes(one) || trailing.includes(one)) tail.push(one);
  return joined([...before, ...tail, ...late.filter(({ type }) => type !== 'text')]);
}
