import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AnswerText } from '../../src/projections/request-preview.ts';
import { chatChunk } from './exchange-history.ts';

const limit = 1000;

function answerOf(...chunks: string[]) {
  const answer = new AnswerText(limit);
  for (const chunk of chunks) answer.add(Buffer.from(chunk));
  return answer.soFar();
}

const event = (data: object) => `event: ${'x'}\ndata: ${JSON.stringify(data)}\n\n`;

test('the text of a chat stream is put together, whatever else comes with it', () => {
  const role = event({ object: 'chat.completion.chunk', choices: [{ index: 0, delta: { role: 'assistant' } }] });
  const usage = event({ object: 'chat.completion.chunk', choices: [], usage: { total_tokens: 3 } });
  const soFar = answerOf(role, chatChunk('Hel'), ': comment\n\n', chatChunk('lo'), usage, 'data: [DONE]\n\n');
  expect(soFar).toEqual({ value: 'Hello', tooBig: false });
});

test('a Responses stream is its text until its terminal event brings the whole object', () => {
  const delta = event({ type: 'response.output_text.delta', delta: 'Hi' });
  const created = event({ type: 'response.created', response: { id: 'r', status: 'in_progress' } });
  expect(answerOf(created, delta)).toEqual({ value: 'Hi', tooBig: false });
  const completed = event({ type: 'response.completed', response: { id: 'r', status: 'completed' } });
  expect(answerOf(created, delta, completed)).toEqual({ value: { id: 'r', status: 'completed' }, tooBig: false });
});

test('of parallel calls, the text is that of the first', () => {
  const delta = (text: string) => event({ type: 'content_block_delta', delta: { text } });
  const line = (content: string) => `data: ${JSON.stringify({ message: { content }, done: false })}\n\n`;
  for (const one of [delta, line]) {
    const chunks = [`call: 0\n${one('Hel')}`, `call: 1\n${one('other')}`, `call: 0\n${one('lo')}`, 'call: 0 ended\n\n'];
    expect(answerOf(...chunks)).toEqual({ value: 'Hello', tooBig: false });
  }
});

test('a JSON answer is shown unchanged', () => {
  const answer = { object: 'chat.completion', choices: [{ message: { content: 'hi' } }], type: 'anything' };
  expect(answerOf(JSON.stringify(answer, null, 2))).toEqual({ value: answer, tooBig: false });
  expect(answerOf('[[0.1, 0.2]]')).toEqual({ value: [[0.1, 0.2]], tooBig: false });
});

test('an unreadable answer has no text', () => {
  expect(answerOf('data: {broken\n\n', 'data: 7\n\n', '\u0000\u0001', '')).toBeUndefined();
});

test('a long answer is cut between characters and marked as cut', () => {
  const soFar = answerOf(...Array.from({ length: 400 }, () => chatChunk('äöü')));
  expect(soFar?.tooBig).toBe(true);
  expect(Buffer.byteLength(String(soFar?.value))).toBeLessThanOrEqual(limit);
  expect('äöü'.repeat(400).startsWith(String(soFar?.value))).toBe(true);
  expect(answerOf(JSON.stringify({ text: 'x'.repeat(limit) }))).toEqual({ value: undefined, tooBig: true });
});

test('the text is the same whenever, and however often, it is read', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 60 })), fc.array(fc.boolean()), (words, looks) => {
      const answer = new AnswerText(limit);
      for (const [index, word] of words.entries()) {
        answer.add(Buffer.from(chatChunk(word)));
        if (looks[index]) answer.soFar();
      }
      expect(answer.soFar()).toEqual(answerOf(...words.map(chatChunk)));
    }),
  );
});

test('a stream of Messages events, or of lines, is its text', () => {
  const delta = (text: string) => event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
  const thought = event({ type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'hm' } });
  expect(answerOf(event({ type: 'message_start', message: {} }), thought, delta('Hel'), delta('lo'))).toEqual({
    value: 'Hello',
    tooBig: false,
  });
  const line = (content: string, done: boolean) => JSON.stringify({ message: { role: 'assistant', content }, done });
  expect(answerOf(line('Hel', false), line('lo', false), line('', true))).toEqual({ value: 'Hello', tooBig: false });
  expect(answerOf(line('Hello', true))).toEqual({ value: JSON.parse(line('Hello', true)), tooBig: false });
});

test('messages of a realtime session are the text that is spoken', () => {
  const message = (type: string, delta?: string) => JSON.stringify({ event_id: 'e', type, delta });
  const audio = message('response.output_audio.delta', 'A'.repeat(2 * limit));
  const spoken = ['hel', 'lo'].map((words) => message('response.output_audio_transcript.delta', words));
  expect(answerOf(message('session.created'), ...spoken, audio, message('response.done'))).toEqual({
    ...{ value: 'hello', tooBig: false },
  });
});
