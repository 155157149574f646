/** A native Responses stream whose deltas pass in runs ends, wherever it is cut, as one whose events are read one by one. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ResponsesAnswer } from '../../../src/commands/exchange/dialects/responses/answer.ts';
import { streamIncomplete } from '../../../src/commands/model-request/upstream-refusals.ts';
import { createFrameSplitter } from '../../../src/providers/stream-frames.ts';

type Event = Record<string, unknown> & { readonly type: string };

const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] };
const at = { item_id: 'msg_1', output_index: 0, content_index: 0 };

function eventsOf(words: readonly string[]): Event[] {
  const text = words.join('');
  const done = { ...item, status: 'completed', content: [{ type: 'output_text', text, annotations: [] }] };
  const response = { id: 'resp_1', object: 'response', model: 'm', output: [] };
  return [
    { type: 'response.created', response: { ...response, status: 'in_progress' } },
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.content_part.added', ...at, part: { type: 'output_text', text: '', annotations: [] } },
    ...words.map((delta) => ({ type: 'response.output_text.delta', ...at, delta })),
    { type: 'response.output_text.done', ...at, text },
    { type: 'response.output_item.done', output_index: 0, item: done },
    { type: 'response.completed', response: { ...response, status: 'completed', output: [done] } },
  ].map((event, index) => ({ ...event, sequence_number: index }));
}

const sse = (event: Event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

function answered(pieces: readonly Buffer[], inRuns: boolean) {
  const answer = new ResponsesAnswer({ name: 'p' }, { shell: () => ({ id: 'resp_none', output: [] }) });
  const splitter = createFrameSplitter({ provider: 'p' });
  let runs = 0;
  const sent: Buffer[] = [];
  for (const piece of pieces) {
    for (const frame of inRuns ? splitter.pushRuns(piece, answer.unread) : splitter.push(piece)) {
      if ('ends' in frame) {
        runs += frame.ends.length;
        answer.passRun(frame);
        sent.push(frame.raw);
      } else sent.push(answer.read(frame).bytes ?? Buffer.alloc(0));
    }
  }
  const end = answer.finish();
  return {
    runs,
    result: { sent: Buffer.concat(sent).toString(), end, stored: answer.response(), usage: answer.usage() },
  };
}

describe('a native Responses stream', () => {
  // 'event: error' and texts that look like members: they are escaped inside strings
  const word = fc.oneof(fc.string(), fc.constantFrom('"error":{', '"response": {', '\n\n', 'é', 'x'.repeat(3000)));

  it('passes its deltas in runs, and ends as one that is read event by event, wherever it is cut', () => {
    let runs = 0;
    fc.assert(
      fc.property(
        fc.array(word, { maxLength: 40 }),
        fc.nat(),
        fc.array(fc.nat(), { maxLength: 4 }),
        (words, cut, places) => {
          const whole = Buffer.from(eventsOf(words).map(sse).join(''));
          const bytes = whole.subarray(0, whole.length - (cut % 3 === 0 ? 0 : cut % whole.length));
          const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
          const pieces = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
          const one = answered(pieces, true);
          expect(one.result).toEqual(answered(pieces, false).result);
          runs += one.runs;
        },
      ),
    );
    expect(runs).toBeGreaterThan(100);
  });

  it('that breaks off keeps the whole text of its unread events', () => {
    const words = Array.from({ length: 500 }, (_, index) => `word ${index} `);
    const events = eventsOf(words).slice(0, -3);
    const { result, runs } = answered([Buffer.from(events.map(sse).join(''))], true);
    expect(runs).toBe(500);
    expect(result.end.cut).toBe(true);
    expect(result.stored?.output).toMatchObject([{ status: 'incomplete', content: [{ text: words.join('') }] }]);
    const numbers = result.end.events.flatMap((event) =>
      'sequence_number' in Object(event) ? [Object(event).sequence_number] : [],
    );
    expect(numbers).toEqual([events.length, events.length + 1]);
  });

  it('reads an error in the place of a delta', () => {
    const answer = new ResponsesAnswer({ name: 'p' });
    const [created] = eventsOf([]);
    const wrong = 'event: response.output_text.delta\ndata: {"type":"error","message":"m","code":"c"}\n\n';
    const frames = createFrameSplitter().pushRuns(Buffer.from(`${created && sse(created)}${wrong}`), answer.unread);
    expect(frames.filter((frame) => 'ends' in frame)).toEqual([]);
    for (const frame of frames) if (!('ends' in frame)) answer.read(frame);
    answer.broken(streamIncomplete('p'));
    expect(answer.response()?.json).toContain('"code":"c"');
  });
});
