import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { guardedEvents, type StreamDialect } from '../../src/commands/guardrails/events/guarded-dialects.ts';
import type { StreamEvent } from '../../src/commands/guardrails/events/guarded-events.ts';
import { StreamPhase } from '../../src/commands/guardrails/phases/stream-phase.ts';
import { Placeholders } from '../../src/commands/guardrails/placeholders.ts';
import { isObject } from '../../src/json/is-object.ts';
import { chunked } from './any-chunking.ts';
import { context, step } from './guardrail-context.ts';

const placeholders = new Placeholders();
const email = placeholders.placeholderOf('EMAIL', 'jane@example.com');
const steps = [step('string_replace', { rules: 'secret => [x]\nFalcon => project' })];

function through(dialect: StreamDialect, events: readonly StreamEvent[], of = steps) {
  const guarded = guardedEvents(dialect, new StreamPhase(of, context({ placeholders })), placeholders);
  const written = events.flatMap((event) => guarded.events(event));
  return { written: [...written, ...guarded.finish()], stop: guarded.stop };
}

const words = fc.constantFrom('secret', 'sec', 'ret', 'Falcon', email, '<EMAIL', ' ', 'a', '"');
const texts = fc.array(words, { minLength: 1, maxLength: 6 }).map((list) => list.join(''));

function expected(text: string): string {
  return text.replaceAll('secret', '[x]').replaceAll('Falcon', 'project').replaceAll(email, 'jane@example.com');
}

/** The members at a path of nested objects and lists. */
function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (inner, name) => (isObject(inner) || Array.isArray(inner) ? Object(inner)[name] : undefined),
    value,
  );
}

function joined(events: readonly StreamEvent[], ...path: readonly (string | number)[]): string {
  return events.map((event) => at(event, ...path) ?? '').join('');
}

const chunk = (delta: object, finish_reason: string | null = null): StreamEvent => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason, logprobs: { content: [{ token: 'secret' }] } }],
});

describe('chat completion chunks', () => {
  it('have the texts of the whole answer, retained text before the finish reason', () => {
    fc.assert(
      fc.property(chunked(texts), chunked(texts), ({ whole, pieces }, reasoning) => {
        const { written } = through('chat', [
          chunk({ role: 'assistant', content: '' }),
          ...reasoning.pieces.map((reasoning_content) => chunk({ reasoning_content })),
          ...pieces.map((content) => chunk({ content })),
          chunk({}, 'stop'),
          { id: 'c', choices: [], usage: { total_tokens: 3 } },
        ]);
        expect(joined(written, 'choices', 0, 'delta', 'content')).toBe(expected(whole));
        expect(joined(written, 'choices', 0, 'delta', 'reasoning_content')).toBe(expected(reasoning.whole));
        expect(at(written.at(-2), 'choices', 0, 'finish_reason')).toBe('stop');
        expect(JSON.stringify(written)).not.toContain('token":"secret');
        expect(written.at(-1)).toEqual({ id: 'c', choices: [], usage: { total_tokens: 3 } });
        const first = (name: string) =>
          written.findLastIndex((one) => at(one, 'choices', 0, 'delta', name) !== undefined);
        if (whole !== '') expect(first('reasoning_content')).toBeLessThanOrEqual(Math.max(1, first('content')));
      }),
    );
  });

  it('have the arguments of each call', () => {
    fc.assert(
      fc.property(texts, texts, fc.nat({ max: 20 }), (one, other, cut) => {
        const args = [JSON.stringify({ a: one }), JSON.stringify({ b: other })];
        const call = (index: number, text: string, id?: string) =>
          chunk({
            tool_calls: [
              { index, ...(id && { id, type: 'function' }), function: { ...(id && { name: 'f' }), arguments: text } },
            ],
          });
        const { written } = through('chat', [
          call(0, '', 'id0'),
          ...args.flatMap((text, index) => [
            ...(index === 1 ? [call(1, '', 'id1')] : []),
            call(index, text.slice(0, cut)),
            call(index, text.slice(cut)),
          ]),
          chunk({}, 'tool_calls'),
        ]);
        const calls = written.flatMap((event) => at(event, 'choices', 0, 'delta', 'tool_calls') ?? []);
        const text = (index: number) =>
          calls
            .filter((each) => at(each, 'index') === index)
            .map((each) => at(each, 'function', 'arguments'))
            .join('');
        expect(JSON.parse(text(0))).toEqual({ a: expected(one) });
        expect(JSON.parse(text(1))).toEqual({ b: expected(other) });
      }),
    );
  });

  it('give what is retained when the stream ends without a finish reason', () => {
    const { written } = through('chat', [chunk({ content: 'a sec' })]);
    expect(joined(written, 'choices', 0, 'delta', 'content')).toBe('a sec');
    expect(written).toHaveLength(2);
    expect(written[1]).toMatchObject({ id: 'c', model: 'm', choices: [{ index: 0, finish_reason: null }] });
  });

  it('have retained text in chunks of their own, before a call and before the finish reason', () => {
    const call = (index: number, input: string) =>
      chunk({ tool_calls: [{ index, id: `c${index}`, custom: { input } }] });
    const { written } = through('chat', [
      chunk({ content: 'a sec' }),
      call(0, 'b sec'),
      call(1, 'c sec'),
      chunk({}, 'tool_calls'),
    ]);
    const custom = (index: number, input: string, id = {}) => [{ index, ...id, custom: { input } }];
    expect(written.map((event) => at(event, 'choices', 0, 'delta'))).toEqual([
      { content: 'a ' },
      { content: 'sec' },
      { tool_calls: custom(0, 'b ', { id: 'c0' }) },
      { tool_calls: custom(0, 'sec') },
      { tool_calls: custom(1, 'c ', { id: 'c1' }) },
      { tool_calls: custom(1, 'sec') },
      {},
    ]);
    const reasons = written.map((event) => at(event, 'choices', 0, 'finish_reason'));
    expect(reasons).toEqual([null, null, null, null, null, null, 'tool_calls']);
  });

  it('end before a match that blocks', () => {
    const { written, stop } = through(
      'chat',
      [chunk({ content: 'a sec' }), chunk({ content: 'ret' }), chunk({ content: 'b' }), chunk({}, 'stop')],
      [step('string_replace', { rules: 'secret', on_match: 'block' })],
    );
    expect(joined(written, 'choices', 0, 'delta', 'content')).toBe('a ');
    expect(stop).toMatchObject({ decision: { action: 'block' } });
  });

  it('of legacy completions have the texts of the whole answer', () => {
    fc.assert(
      fc.property(chunked(texts), ({ whole, pieces }) => {
        const { written } = through('completions', [
          ...pieces.map((text) => ({ choices: [{ index: 0, text, finish_reason: null }] })),
          { choices: [{ index: 0, text: '', finish_reason: 'stop' }] },
        ]);
        expect(joined(written, 'choices', 0, 'text')).toBe(expected(whole));
        expect(at(written.at(-1), 'choices', 0, 'finish_reason')).toBe('stop');
      }),
    );
  });
});

describe('message events', () => {
  const delta = (index: number, value: object) => ({ type: 'content_block_delta', index, delta: value });

  it('have the texts of each block before it stops, and thinking before its signature', () => {
    fc.assert(
      fc.property(chunked(texts), chunked(texts), texts, ({ whole, pieces }, thinking, argument) => {
        const json = JSON.stringify({ a: argument });
        const { written } = through('messages', [
          { type: 'message_start', message: { id: 'm' } },
          { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
          ...thinking.pieces.map((one) => delta(0, { type: 'thinking_delta', thinking: one })),
          delta(0, { type: 'signature_delta', signature: 's' }),
          { type: 'content_block_stop', index: 0 },
          { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
          ...pieces.map((text) => delta(1, { type: 'text_delta', text })),
          { type: 'content_block_stop', index: 1 },
          { type: 'content_block_start', index: 2, content_block: { type: 'tool_use', id: 't', name: 'f', input: {} } },
          delta(2, { type: 'input_json_delta', partial_json: json.slice(0, 4) }),
          delta(2, { type: 'input_json_delta', partial_json: json.slice(4) }),
          { type: 'content_block_stop', index: 2 },
          { type: 'message_stop' },
        ]);
        expect(joined(written, 'delta', 'thinking')).toBe(expected(thinking.whole));
        expect(joined(written, 'delta', 'text')).toBe(expected(whole));
        expect(JSON.parse(joined(written, 'delta', 'partial_json'))).toEqual({ a: expected(argument) });
        const order = written
          .filter(({ index }) => index === 0)
          .map((event) => at(event, 'delta', 'type') ?? event['type']);
        expect(order.slice(-2)).toEqual(['signature_delta', 'content_block_stop']);
        expect(written.at(-1)).toEqual({ type: 'message_stop' });
      }),
    );
  });
});

describe('response events', () => {
  it('have the same texts in deltas, completed parts, completed items and the response', () => {
    fc.assert(
      fc.property(chunked(texts), texts, texts, ({ whole, pieces }, argument, summary) => {
        const ids = { item_id: 'i', output_index: 1, content_index: 0 };
        const part = { type: 'output_text', text: whole, annotations: [], logprobs: [{ token: 'secret' }] };
        const item = { id: 'i', type: 'message', role: 'assistant', status: 'completed', content: [part] };
        const json = JSON.stringify({ a: argument });
        const call = { id: 'f', type: 'function_call', call_id: 'c', name: 'f', arguments: json };
        const reasoning = { id: 'r', type: 'reasoning', summary: [{ type: 'summary_text', text: summary }] };
        const events: StreamEvent[] = [
          { type: 'response.created', response: { id: 'r', status: 'in_progress', instructions: email, output: [] } },
          { type: 'response.output_item.done', output_index: 0, item: reasoning },
          { type: 'response.output_item.added', output_index: 1, item: { ...item, content: [] } },
          { type: 'response.content_part.added', ...ids, part: { type: 'output_text', text: '', annotations: [] } },
          ...pieces.map((delta) => ({
            type: 'response.output_text.delta',
            ...ids,
            delta,
            logprobs: [{ token: 'secret' }],
          })),
          { type: 'response.output_text.done', ...ids, text: whole, logprobs: [{ token: 'secret' }] },
          { type: 'response.content_part.done', ...ids, part },
          { type: 'response.output_item.done', output_index: 1, item },
          { type: 'response.function_call_arguments.delta', item_id: 'f', output_index: 2, delta: json.slice(0, 5) },
          { type: 'response.function_call_arguments.delta', item_id: 'f', output_index: 2, delta: json.slice(5) },
          { type: 'response.function_call_arguments.done', item_id: 'f', output_index: 2, arguments: json },
          { type: 'response.output_item.done', output_index: 2, item: call },
          {
            type: 'response.completed',
            response: { id: 'r', status: 'completed', instructions: email, output: [reasoning, item, call] },
          },
        ].map((event, sequence_number) => ({ ...event, sequence_number }));
        const { written } = through('responses', events);
        const of = (type: string) => written.filter((event) => event['type'] === type);
        const text = expected(whole);
        expect(joined(of('response.output_text.delta'), 'delta')).toBe(text);
        expect(joined(of('response.output_text.done'), 'text')).toBe(text);
        expect(joined(of('response.content_part.done'), 'part', 'text')).toBe(text);
        expect(JSON.parse(joined(of('response.function_call_arguments.delta'), 'delta'))).toEqual({
          a: expected(argument),
        });
        const last = written.at(-1);
        expect(at(last, 'response', 'output', 1, 'content', 0)).toEqual({ ...part, text, logprobs: [] });
        expect(JSON.parse(String(at(last, 'response', 'output', 2, 'arguments')))).toEqual({ a: expected(argument) });
        expect(at(last, 'response', 'output', 0, 'summary', 0, 'text')).toBe(expected(summary));
        expect(at(last, 'response', 'instructions')).toBe('jane@example.com');
        expect(written.map((event) => event['sequence_number'])).toEqual(written.map((_, index) => index));
        expect(JSON.stringify(written)).not.toContain('"token"');
      }),
    );
  });

  it('evaluate texts that were not streamed', () => {
    const item = { type: 'message', content: [{ type: 'output_text', text: 'a secret' }] };
    const { stop } = through(
      'responses',
      [{ type: 'response.completed', response: { output: [item] } }],
      [step('string_replace', { rules: 'secret', on_match: 'block' })],
    );
    expect(stop).toMatchObject({ decision: { action: 'block' } });
  });
});
