/** The stream events of a response, in OpenAI's order, derived from the finished object. */
import { grouped, pieces } from './chat.ts';
import type { Fault } from './fault.ts';
import { type JsonObject, listIn, objectIn, textIn } from './json.ts';
import { DONE, type Frame, type FrameKind } from './reply.ts';
import { logprobsOf } from './response-object.ts';
import { tokensOf } from './tokens.ts';

interface Event {
  readonly kind: FrameKind;
  readonly type: string;
  readonly data: JsonObject;
}

export interface EventOptions {
  /** The request body, which says whether logprobs are wanted. */
  readonly body: JsonObject;
  readonly fault?: Fault;
  /** Only events with a greater sequence number are sent, as `starting_after` asks. */
  readonly after?: number;
}

export function* responseFrames(response: JsonObject, options: EventOptions): Generator<Frame> {
  let sequence = 0;
  for (const { kind, type, data } of eventsOf(response, options)) {
    if (sequence > (options.after ?? -1)) {
      yield { kind, text: `event: ${type}\ndata: ${JSON.stringify({ type, ...data, sequence_number: sequence })}\n\n` };
    }
    sequence++;
  }
  yield DONE;
}

function* eventsOf(response: JsonObject, options: EventOptions): Generator<Event> {
  const begun = {
    ...response,
    status: 'in_progress',
    completed_at: null,
    incomplete_details: null,
    output: [],
    usage: null,
  };
  if (response.background === true) {
    yield { kind: 'open', type: 'response.queued', data: { response: { ...begun, status: 'queued' } } };
  }
  yield { kind: 'open', type: 'response.created', data: { response: begun } };
  yield { kind: 'open', type: 'response.in_progress', data: { response: begun } };
  for (const [index, item] of listIn(response.output).entries()) yield* itemEvents(objectIn(item), index, options);
  yield { kind: 'finish', type: `response.${textIn(response.status) ?? 'completed'}`, data: { response } };
}

function* itemEvents(item: JsonObject, output_index: number, options: EventOptions): Generator<Event> {
  const item_id = item.id;
  const event = (name: string, data: JsonObject): Event => ({ kind: 'delta', type: `response.${name}`, data });
  switch (item.type) {
    case 'reasoning': {
      yield event('output_item.added', { output_index, item: { ...item, summary: [] } });
      for (const [summary_index, part] of listIn(item.summary).entries()) {
        const place = { item_id, output_index, summary_index };
        const text = textIn(objectIn(part).text) ?? '';
        yield event('reasoning_summary_part.added', { ...place, part: { type: 'summary_text', text: '' } });
        for (const delta of tokensOf(text)) yield event('reasoning_summary_text.delta', { ...place, delta });
        yield event('reasoning_summary_text.done', { ...place, text });
        yield event('reasoning_summary_part.done', { ...place, part });
      }
      break;
    }
    case 'function_call': {
      const text = textIn(item.arguments) ?? '';
      yield event('output_item.added', { output_index, item: { ...item, status: 'in_progress', arguments: '' } });
      for (const delta of pieces(text)) yield event('function_call_arguments.delta', { item_id, output_index, delta });
      yield event('function_call_arguments.done', { item_id, output_index, name: item.name, arguments: text });
      break;
    }
    default: {
      yield event('output_item.added', { output_index, item: { ...item, status: 'in_progress', content: [] } });
      for (const [content_index, part] of listIn(item.content).entries()) {
        const place = { item_id, output_index, content_index };
        const { text: whole, logprobs } = objectIn(part);
        const text = textIn(whole) ?? '';
        yield event('content_part.added', {
          ...place,
          part: { type: 'output_text', annotations: [], logprobs: [], text: '' },
        });
        for (const tokens of grouped(tokensOf(text), options.fault)) {
          yield event('output_text.delta', {
            ...place,
            delta: tokens.join(''),
            logprobs: logprobsOf(options.body, tokens),
          });
        }
        yield event('output_text.done', { ...place, text, logprobs });
        yield event('content_part.done', { ...place, part });
      }
    }
  }
  yield event('output_item.done', { output_index, item });
}
