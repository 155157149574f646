/** The stream events of one output item, from its addition to its end. */
import { grouped, pieces } from './chat.ts';
import { type Json, type JsonObject, listIn, objectIn, textIn } from './json.ts';
import type { EventOptions, ResponseEvent } from './response-event.ts';
import { logprobsOf } from './response-items.ts';
import { tokensOf } from './tokens.ts';

export function* itemEvents(item: JsonObject, output_index: number, options: EventOptions): Generator<ResponseEvent> {
  const place = { item_id: item.id, output_index };
  const begun = { ...item, status: 'in_progress' };
  switch (item.type) {
    case 'reasoning':
      yield event('output_item.added', { output_index, item: { ...item, summary: [] } });
      yield* summaryEvents(item, place);
      break;
    case 'function_call': {
      const text = textIn(item.arguments) ?? '';
      yield event('output_item.added', { output_index, item: { ...begun, arguments: '' } });
      for (const delta of pieces(text)) yield event('function_call_arguments.delta', { ...place, delta });
      yield event('function_call_arguments.done', { ...place, name: item.name, arguments: text });
      break;
    }
    case 'custom_tool_call': {
      const input = textIn(item.input) ?? '';
      yield event('output_item.added', { output_index, item: { ...begun, input: '' } });
      for (const delta of pieces(input)) yield event('custom_tool_call_input.delta', { ...place, delta });
      yield event('custom_tool_call_input.done', { ...place, input });
      break;
    }
    case 'web_search_call':
      yield event('output_item.added', { output_index, item: begun });
      for (const step of ['in_progress', 'searching', 'completed']) yield event(`web_search_call.${step}`, place);
      break;
    default:
      yield event('output_item.added', { output_index, item: { ...begun, content: [] } });
      for (const [content_index, part] of listIn(item.content).entries())
        yield* partEvents(objectIn(part), { ...place, content_index }, options);
  }
  yield event('output_item.done', { output_index, item });
}

function event(name: string, data: JsonObject): ResponseEvent {
  return { kind: 'delta', type: `response.${name}`, data };
}

function* summaryEvents(item: JsonObject, at: JsonObject): Generator<ResponseEvent> {
  for (const [summary_index, part] of listIn(item.summary).entries()) {
    const place = { ...at, summary_index };
    const text = textIn(objectIn(part).text) ?? '';
    yield event('reasoning_summary_part.added', { ...place, part: { type: 'summary_text', text: '' } });
    for (const delta of tokensOf(text)) yield event('reasoning_summary_text.delta', { ...place, delta });
    yield event('reasoning_summary_text.done', { ...place, text });
    yield event('reasoning_summary_part.done', { ...place, part });
  }
}

function* partEvents(part: JsonObject, place: JsonObject, options: EventOptions): Generator<ResponseEvent> {
  if (part.type === 'refusal') {
    const refusal = textIn(part.refusal) ?? '';
    yield event('content_part.added', { ...place, part: { type: 'refusal', refusal: '' } });
    for (const delta of tokensOf(refusal)) yield event('refusal.delta', { ...place, delta });
    yield event('refusal.done', { ...place, refusal });
  } else {
    const text = textIn(part.text) ?? '';
    const empty = { type: 'output_text', annotations: [], logprobs: [], text: '' };
    yield event('content_part.added', { ...place, part: empty });
    for (const tokens of grouped(tokensOf(text), options.fault)) {
      const logprobs: Json = logprobsOf(options.body, tokens);
      yield event('output_text.delta', { ...place, delta: tokens.join(''), logprobs });
    }
    for (const [annotation_index, annotation] of listIn(part.annotations).entries())
      yield event('output_text.annotation.added', { ...place, annotation_index, annotation });
    yield event('output_text.done', { ...place, text, logprobs: part.logprobs });
  }
  yield event('content_part.done', { ...place, part });
}
