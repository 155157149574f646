/** Answers recorded from real servers: as messages, and observed as they go by. Anthropic's are read where they are kept, and else skipped. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { MessagesAnswer } from '../../src/commands/exchange/dialects/messages/answer.ts';
import { AnswerStream } from '../../src/commands/exchange/response-stream.ts';
import { createFrameSplitter } from '../../src/providers/stream-frames.ts';
import {
  createMessageStreamTranslator,
  messageFromChat,
} from '../../src/providers/translate/messages-to-chat/stream.ts';
import { addedUp, messageShell } from './message-shape.ts';

const llamacpp = new URL('./fixtures/llamacpp/', import.meta.url);
const recorded =
  process.env['CHANCERY_RECORDED_FIXTURES'] ??
  fileURLToPath(new URL('../../../shared/fixtures/recorded', import.meta.url));

const cassette = (name: string) => JSON.parse(readFileSync(new URL(name, llamacpp), 'utf8')).response.body;

function unchangedMessages() {
  const answer = new MessagesAnswer({ name: 'anthropic' });
  return new AnswerStream(answer, answer);
}

function dataOf(stream: string) {
  const lines = stream.split('\n').filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]');
  return lines.map((line) => JSON.parse(line.slice('data: '.length)));
}

describe('recorded from llama.cpp', () => {
  it('a stream cut by max_tokens, and the same answer whole', () => {
    const translator = createMessageStreamTranslator(messageShell());
    const events = dataOf(cassette('chat.stream.json')).flatMap((chunk) => translator.push(chunk));
    const message = addedUp([...events, ...translator.finish()]);
    expect(message).toMatchObject({
      content: [{ type: 'text', text: '再 kernelakлович Lewis своей supporting Bret' }],
      stop_reason: 'max_tokens',
      usage: { input_tokens: 29, output_tokens: 8 },
    });
    expect(messageFromChat(cassette('chat.json'), messageShell())).toEqual(message);
  });
});

describe.skipIf(!existsSync(recorded))('recorded from Anthropic', () => {
  const read = (name: string) => readFileSync(`${recorded}/anthropic/${name}`, 'utf8');

  it('a stream is passed on unchanged, and its usage is read', () => {
    const answer = unchangedMessages();
    const stream = Buffer.from(read('messages_stream.txt'));
    const splitter = createFrameSplitter({ maxFrameBytes: 1 << 20 });
    const frames = [...splitter.push(stream), splitter.end()].filter((frame) => frame !== undefined);
    const answers = frames.map((frame) => answer.frame(frame));
    // The recording lacks the blank line behind its last event.
    expect(Buffer.concat(answers.map(({ bytes }) => bytes ?? Buffer.of())).toString()).toBe(`${stream}\n`);
    expect(answers.map(({ terminal }) => terminal).lastIndexOf(false)).toBe(answers.length - 2);
    expect(answer.finish()).toEqual({ cut: false });
    expect(answer.writer.finishReason).toBe('end_turn');
    expect(answer.reader.usage()).toMatchObject({
      inputTokens: 10,
      outputTokens: 5,
      totalTokens: 15,
      cachedInputTokens: 0,
    });
  });

  it('a stream of ours for the same text has its events, in its order, with its members', () => {
    const native = dataOf(read('messages_stream.txt')).filter(({ type }) => type !== 'ping');
    const translator = createMessageStreamTranslator(messageShell());
    const said = { choices: [{ index: 0, delta: { content: 'Hello World' }, finish_reason: 'stop' }] };
    const ours = [...translator.push(said), ...translator.finish()];
    expect(ours.map(({ type }) => type)).toEqual(native.map(({ type }) => type));
    for (const [index, event] of native.entries()) {
      expect(missingFrom(ours[index], event).filter((path) => !/cache_creation$|service_tier$/.test(path))).toEqual([]);
    }
  });

  it.each([
    ['messages.json', 'end_turn'],
    ['messages_with_tools.json', 'tool_use'],
    ['messages_with_params.json', 'stop_sequence'],
    ['messages_extended_thinking.json', 'end_turn'],
  ])('%s is unchanged, and its usage is read', (name, stopReason) => {
    const answer = unchangedMessages();
    const bytes = Buffer.from(read(name));
    expect(answer.whole(bytes, JSON.parse(bytes.toString()))).toBe(bytes);
    expect(answer.writer.finishReason).toBe(stopReason);
    expect(answer.reader.usage()).toMatchObject({ source: 'provider', outputTokens: expect.any(Number) });
  });
});

/** Paths of the members, all the way down, that `theirs` has and `ours` has not. */
function missingFrom(ours: unknown, theirs: unknown, path = ''): string[] {
  if (typeof theirs !== 'object' || theirs === null) return [];
  return Object.entries(theirs).flatMap(([member, value]) => {
    const at = `${path}/${member}`;
    if (typeof ours !== 'object' || ours === null || !(member in ours)) return [at];
    return missingFrom(Reflect.get(ours, member), value, at);
  });
}
