/** Answers recorded from real servers, translated. The OpenAI ones are read where they are kept, and else skipped. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  createChatStreamTranslator,
  responseFromChat,
} from '../../src/providers/translate/chat-to-responses/stream.ts';
import { checkResponse, checkStream } from './openai-shape.ts';
import { completedAt, shellFor } from './shells.ts';

const llamacpp = new URL('./fixtures/llamacpp/', import.meta.url);
const recorded =
  process.env['CHANCERY_RECORDED_FIXTURES'] ??
  fileURLToPath(new URL('../../../shared/fixtures/recorded', import.meta.url));

function cassette(name: string) {
  return JSON.parse(readFileSync(new URL(name, llamacpp), 'utf8')).response.body;
}

/** The parsed JSON of each `data:` line, up to the end marker. */
function dataOf(stream: string): unknown[] {
  const lines = stream.split('\n').filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]');
  return lines.map((line) => JSON.parse(line.slice('data: '.length)));
}

function play(chunks: readonly unknown[]) {
  const translator = createChatStreamTranslator(shellFor());
  const events = chunks.flatMap((chunk) => translator.push(chunk));
  return [...events, ...translator.finish({ completedAt, endMarker: true })];
}

function translated(completion: unknown) {
  const result = responseFromChat(completion, shellFor(), completedAt);
  if (!result.ok) throw new Error(result.error.message);
  return checkResponse(result.response);
}

describe('recorded from llama.cpp', () => {
  it('a stream cut by max_tokens', () => {
    const response = checkStream(play(dataOf(cassette('chat.stream.json'))));
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ content: [{ text: '再 kernelakлович Lewis своей supporting Bret' }] }],
      usage: { input_tokens: 29, output_tokens: 8, total_tokens: 37 },
    });
  });

  it('the same answer, whole', () => {
    const streamed = checkStream(play(dataOf(cassette('chat.stream.json'))));
    expect(translated(cassette('chat.json'))).toEqual(streamed);
  });

  it('log probabilities', () => {
    const { output } = translated(cassette('chat.logprobs.json'));
    const part = output[0]?.type === 'message' ? output[0].content[0] : undefined;
    const logprobs = part?.type === 'output_text' ? part.logprobs : [];
    expect(logprobs.map((entry) => entry.token).join('')).toBe('再 kernel');
    expect(logprobs.map((entry) => entry.top_logprobs.length)).toEqual([2, 2]);
  });

  it.each(['chat.stop.json', 'chat.json_schema.json'])('%s', (name) => {
    const completion = cassette(name);
    expect(translated(completion).output).toMatchObject([
      { content: [{ text: completion.choices[0].message.content }] },
    ]);
  });
});

describe.skipIf(!existsSync(recorded))('recorded from OpenAI', () => {
  const read = (name: string) => readFileSync(`${recorded}/openai/${name}`, 'utf8');
  type Events = { type: string; [member: string]: unknown }[];
  const usage = { choices: [], usage: { prompt_tokens: 17, completion_tokens: 5, total_tokens: 22 } };
  const native = dataOf(existsSync(recorded) ? read('responses_stream.txt') : '') as Events;

  it('our stream for the same text has its events, in its order', () => {
    const ours = play([...dataOf(read('chat_completion_stream.txt')), usage]);
    checkStream(ours);
    expect(ours.map((event) => event.type)).toEqual(native.map((event) => event.type));
  });

  it('each of our events has its members and more, except for padding and billing', () => {
    const ours = play([...dataOf(read('chat_completion_stream.txt')), usage]);
    for (const [index, event] of native.entries()) {
      const { obfuscation: _padding, ...members } = event;
      expect(missingFrom(ours[index], members)).toEqual([]);
    }
  });

  it('a whole response of ours has the members of its', () => {
    const { billing: _bill, ...response } = JSON.parse(read('responses.json'));
    expect(missingFrom(translated(JSON.parse(read('chat_completion.json'))), response)).toEqual([]);
  });

  it.each([
    'chat_completion.json',
    'chat_json_mode.json',
    'chat_multi_turn.json',
    'chat_multimodal.json',
    'chat_with_params.json',
  ])('%s', (name) => {
    const completion = JSON.parse(read(name));
    const response = translated(completion);
    expect(response.output).toMatchObject([{ content: [{ text: completion.choices[0].message.content }] }]);
    expect(response.usage?.raw_usage).toEqual(completion.usage);
  });

  it('a tool call', () => {
    expect(translated(JSON.parse(read('chat_with_tools.json'))).output).toMatchObject([
      {
        type: 'function_call',
        call_id: 'call_X8zi23yeE70r4qiZ2lhIuRNK',
        name: 'get_weather',
        arguments: '{"location":"Paris"}',
      },
    ]);
  });

  it('the count of reasoning tokens', () => {
    const { usage } = translated(JSON.parse(read('chat_completion_reasoning.json')));
    expect(usage?.output_tokens_details.reasoning_tokens).toBe(64);
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
