import fc from 'fast-check';
import { ResponseStream } from 'openai/lib/responses/ResponseStream';
import { describe, expect, it } from 'vitest';
import { ChatAnswerReader } from '../../src/commands/exchange/dialects/chat/answer.ts';
import { chatReader } from '../../src/commands/exchange/dialects/chat/chat-dialect.ts';
import { ResponsesFromChat } from '../../src/commands/exchange/dialects/responses/answer.ts';
import { AnswerStream } from '../../src/commands/exchange/response-stream.ts';
import { createFrameSplitter } from '../../src/providers/stream-frames.ts';
import type { ResponseShell } from '../../src/providers/translate/chat-to-responses/response-object.ts';
import {
  createChatStreamTranslator,
  responseFromChat,
} from '../../src/providers/translate/chat-to-responses/stream.ts';
import { countOf } from '../support/seed.ts';
import { checkResponse, checkStream } from './openai-shape.ts';
import { completedAt, createdAt, shellFor } from './shells.ts';
import { says, streamed } from './streamed-chat.ts';

const tools = [{ type: 'custom', name: 'patch' }];
const shell = shellFor({ tools });
const shells = fc
  .constantFrom(
    [],
    ['reasoning.encrypted_content'],
    ['reasoning.content'],
    ['reasoning.content', 'reasoning.encrypted_content'],
  )
  .map((include) => shellFor({ tools, include }));

interface Answer {
  reasoning: string;
  /** Extra content of the vendor beside the reasoning. */
  extra: object | undefined;
  content: string;
  refusal: string;
  calls: { id: string | undefined; name: string; arguments: string; extra: object | undefined }[];
  finish: string;
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number } | undefined;
}

const answers: fc.Arbitrary<Answer> = fc.record({
  reasoning: fc.string({ unit: 'grapheme' }),
  extra: fc.option(fc.constant({ vendor: { thoughts: [{ signature: 'c2ln' }] } }), { nil: undefined }),
  content: fc.string({ unit: 'grapheme' }),
  refusal: fc.oneof({ arbitrary: fc.constant(''), weight: 3 }, fc.string()),
  calls: fc.array(
    fc.record({
      id: fc.option(fc.constantFrom('call_a', 'call_b', 'call_c'), { nil: undefined }),
      name: fc.constantFrom('f', 'g', 'patch'),
      arguments: fc.oneof(fc.json(), fc.constant(''), fc.constant('{"input":"x"}')),
      extra: fc.option(fc.constant({ vendor: { signature: 'c2ln' } }), { nil: undefined }),
    }),
    { maxLength: 4 },
  ),
  finish: fc.constantFrom('stop', 'tool_calls', 'length', 'content_filter'),
  usage: fc.option(fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat(), total_tokens: fc.nat() }), {
    nil: undefined,
  }),
});

function whole(answer: Answer): unknown {
  return {
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          reasoning_content: answer.reasoning,
          extra_content: answer.extra,
          content: answer.content,
          refusal: answer.refusal === '' ? null : answer.refusal,
          tool_calls: answer.calls.map(({ id, name, arguments: args, extra }) => ({
            id,
            extra_content: extra,
            function: { name, arguments: args },
          })),
        },
        finish_reason: answer.finish,
      },
    ],
    usage: answer.usage,
  };
}

/** The stream in the bytes of a provider. */
function onTheWire(chunks: readonly unknown[]): Buffer {
  return Buffer.from(
    [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`).join(''),
  );
}

/** The client's bytes when the provider's bytes arrive in these pieces. */
function relayed(bytes: readonly Buffer[], shell: ResponseShell): string {
  const provider = { name: 'local' };
  const facts = { id: 'chatcmpl-1a2b', model: shell.model, createdAt };
  const reader = new ChatAnswerReader(provider, chatReader('chat', facts));
  const relay = new AnswerStream(reader, new ResponsesFromChat(shell, () => completedAt));
  const splitter = createFrameSplitter({ maxFrameBytes: 1024 * 1024, provider: provider.name });
  const frames = bytes.flatMap((piece) => splitter.push(piece));
  const events = frames.map((frame) => relay.frame(frame).bytes ?? Buffer.alloc(0));
  return Buffer.concat([...events, relay.finish().bytes ?? Buffer.alloc(0)]).toString();
}

function split(bytes: Buffer, cut: () => number): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + (cut() % 40);
    parts.push(bytes.subarray(at, at + size));
    at += size;
  }
  return parts;
}

/** The events as OpenAI's own client accumulates them. */
async function accumulated(events: readonly unknown[]) {
  const lines = events.map((event) => `${JSON.stringify(event)}\n`);
  const stream = ResponseStream.fromReadableStream(ReadableStream.from(lines.map((line) => Buffer.from(line))));
  return stream.finalResponse();
}

const cuts = fc.infiniteStream(fc.nat(1000)).map((numbers) => () => Number(numbers.next().value));

describe('laws of the stream', () => {
  it('however an answer is cut into chunks, the response is that of the whole answer', () => {
    fc.assert(
      fc.property(answers, cuts, shells, (answer, cut, shell) => {
        const translator = createChatStreamTranslator(shell);
        const events = streamed(answer, cut).flatMap((chunk) => translator.push(chunk));
        events.push(...translator.finish({ completedAt, endMarker: true }));
        const result = responseFromChat(whole(answer), shell, completedAt);
        if (!result.ok) throw new Error(result.error.message);
        checkResponse(result.response);
        checkStream(events);
        expect(JSON.stringify(translator.snapshot())).toBe(JSON.stringify(result.response));
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('however its bytes are cut up by the network, the client gets the same bytes', () => {
    fc.assert(
      fc.property(answers, cuts, shells, (answer, cut, shell) => {
        const bytes = onTheWire(streamed(answer, cut));
        expect(relayed(split(bytes, cut), shell)).toBe(relayed([bytes], shell));
      }),
      { numRuns: countOf(50, 200) },
    );
  });

  it('OpenAI’s own client makes the same response of it that the terminal event holds', async () => {
    await fc.assert(
      fc.asyncProperty(answers, cuts, shells, async (answer, cut, shell) => {
        const translator = createChatStreamTranslator(shell);
        const events = streamed(answer, cut).flatMap((chunk) => translator.push(chunk));
        events.push(...translator.finish({ completedAt, endMarker: true }));
        const ours = JSON.parse(JSON.stringify(translator.snapshot()));
        expect(await accumulated(events)).toMatchObject(ours);
      }),
      { numRuns: countOf(50, 200) },
    );
  });

  it('text in any order of kinds is streamed whole, in a stream that keeps every rule', () => {
    const word = fc.string({ minLength: 1, maxLength: 4 });
    const delta = fc.oneof(
      fc.record({ content: word }),
      fc.record({ reasoning_content: word }),
      fc.record({ refusal: word }),
      fc.record({
        tool_calls: fc.array(
          fc.record(
            {
              index: fc.nat(2),
              id: fc.constantFrom('', 'a', 'b', 'c'),
              function: fc.record({ name: fc.constantFrom('f', 'patch'), arguments: word }, { requiredKeys: [] }),
            },
            { requiredKeys: [] },
          ),
        ),
      }),
    );
    fc.assert(
      fc.property(fc.array(delta), fc.constantFrom('finish', 'cancel', 'fail'), (deltas, ending) => {
        const translator = createChatStreamTranslator(shell);
        const events = deltas.flatMap((one) => translator.push(says(one)));
        if (ending === 'finish') events.push(...translator.finish({ completedAt, endMarker: true }));
        const failure = { type: 'internal_error', code: 'x', message: 'x' };
        if (ending === 'cancel') events.push(...translator.fail(failure, 'cancelled'));
        if (ending === 'fail') events.push(...translator.fail(failure));
        const response = checkStream(events);
        const received = response.output.flatMap((item) => (item.type === 'message' ? item.content : []));
        const texts = received.map((part) => (part.type === 'output_text' ? part.text : '')).join('');
        expect(texts).toBe(deltas.map((one) => ('content' in one ? one.content : '')).join(''));
        const thought = response.output.flatMap((item) => (item.type === 'reasoning' ? item.summary : []));
        expect(thought.map((part) => part.text).join('')).toBe(
          deltas.map((one) => ('reasoning_content' in one ? one.reasoning_content : '')).join(''),
        );
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('no JSON value makes the translator throw or break a rule', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.jsonValue(),
            fc.jsonValue().map((delta) => ({ choices: [{ delta }] })),
          ),
        ),
        (chunks) => {
          const translator = createChatStreamTranslator(shell);
          const events = chunks.flatMap((chunk) => translator.push(chunk));
          events.push(...translator.finish({ completedAt, endMarker: false }));
          expect(() => checkStream(events)).not.toThrow();
        },
      ),
      { numRuns: countOf(75, 300) },
    );
  });
});
