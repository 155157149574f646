/** Anthropic's Messages API: a message, its stream, and the count of its tokens. */
import { type Answer, answer, promptTokens } from './answer.ts';
import { grouped, pieces, type Rendering } from './chat.ts';
import type { Fault } from './fault.ts';
import { type Json, type JsonObject, objectIn, parseJson } from './json.ts';
import { askOfMessages, checkSettings } from './messages-request.ts';
import { PromptCache } from './prompt-cache.ts';
import { type Frame, namedFrame, type Reply } from './reply.ts';
import { countTokens, tokensOf } from './tokens.ts';
import { hashOf } from './words.ts';

export class Messages {
  readonly #cache = new PromptCache();

  create(body: JsonObject, rendering: Rendering): Reply {
    checkSettings(body);
    const { ask, prefill } = askOfMessages(body, rendering);
    const whole = answer(ask);
    const given = prefill === '' ? whole : continued(whole, prefill);
    const cached = this.#cache.use(body);
    const usage = {
      input_tokens: Math.max(0, given.promptTokens + countTokens(prefill) - cached.read - cached.written),
      cache_creation_input_tokens: cached.written,
      cache_read_input_tokens: cached.read,
      cache_creation: { ephemeral_5m_input_tokens: cached.written, ephemeral_1h_input_tokens: 0 },
      output_tokens: given.completionTokens,
      service_tier: 'standard',
    };
    const { fault, newId } = rendering;
    const message = {
      id: newId('msg_'),
      type: 'message',
      role: 'assistant',
      model: ask.model,
      content: fault?.emptyChoices ? [] : blocksOf(given, objectIn(body.thinking).display === 'omitted', newId),
      stop_reason: stopReason(given),
      stop_sequence: given.stopSequence ?? null,
      ...(fault?.usage === false ? {} : { usage }),
    };
    return body.stream === true ? { status: 200, frames: frames(message, fault) } : { status: 200, json: message };
  }

  countTokens(body: JsonObject, rendering: Rendering): Reply {
    const { ask, prefill } = askOfMessages(body, rendering);
    return { status: 200, json: { input_tokens: promptTokens(ask) + countTokens(prefill) } };
  }
}

/** The rest of an answer whose beginning the client has given. */
function continued(given: Answer, prefill: string): Answer {
  if (!given.text.startsWith(prefill)) return given;
  const text = given.text.slice(prefill.length);
  const tokens = tokensOf(text);
  const completionTokens = given.completionTokens - given.tokens.length + tokens.length;
  return { ...given, text, tokens, completionTokens };
}

function stopReason(given: Answer): string {
  if (given.calls.length > 0) return 'tool_use';
  if (given.finish === 'length') return 'max_tokens';
  if (given.refused || given.finish === 'content_filter') return 'refusal';
  return given.stopSequence === undefined ? 'end_turn' : 'stop_sequence';
}

function blocksOf(given: Answer, thoughtsOmitted: boolean, newId: (prefix: string) => string): JsonObject[] {
  const thought = given.reasoning.join('');
  const signature = Buffer.from(`signed ${hashOf(thought)}`).toString('base64');
  return [
    ...(thought === '' ? [] : [{ type: 'thinking', thinking: thoughtsOmitted ? '' : thought, signature }]),
    ...(given.text === '' ? [] : [{ type: 'text', text: given.text }]),
    ...given.calls.map(({ name, arguments: text }) => ({
      type: 'tool_use',
      id: newId('toolu_'),
      name,
      input: objectIn(parseJson(text)),
    })),
  ];
}

type Message = JsonObject & { readonly content: JsonObject[] };

/** The finished message as Anthropic streams it: https://platform.claude.com/docs/en/build-with-claude/streaming */
function* frames(message: Message, fault: Fault | undefined): Generator<Frame> {
  const { usage, content, stop_reason, stop_sequence } = message;
  const begun = { ...message, content: [], stop_reason: null, stop_sequence: null };
  const opening = usage === undefined ? begun : { ...begun, usage: { ...objectIn(usage), output_tokens: 1 } };
  yield namedFrame('open', { type: 'message_start', message: opening });
  for (const [index, block] of content.entries()) {
    const { empty, deltas } = inPieces(block, fault);
    yield namedFrame('delta', { type: 'content_block_start', index, content_block: empty });
    if (index === 0) yield namedFrame('delta', { type: 'ping' });
    for (const delta of deltas) yield namedFrame('delta', { type: 'content_block_delta', index, delta });
    yield namedFrame('delta', { type: 'content_block_stop', index });
  }
  const { service_tier: _, cache_creation: __, ...spent } = objectIn(usage);
  const end = { type: 'message_delta', delta: { stop_reason, stop_sequence } };
  yield namedFrame('finish', usage === undefined ? end : { ...end, usage: spent });
  yield namedFrame('done', { type: 'message_stop' });
}

/** A block in the form of its start event, and the deltas that fill it. */
function inPieces(block: JsonObject, fault: Fault | undefined): { empty: JsonObject; deltas: JsonObject[] } {
  const text = (value: Json | undefined) => grouped(tokensOf(String(value)), fault).map((tokens) => tokens.join(''));
  switch (block.type) {
    case 'thinking':
      return {
        empty: { ...block, thinking: '', signature: '' },
        deltas: [
          ...tokensOf(String(block.thinking)).map((thinking) => ({ type: 'thinking_delta', thinking })),
          { type: 'signature_delta', signature: block.signature },
        ],
      };
    case 'tool_use':
      return {
        empty: { ...block, input: {} },
        deltas: ['', ...pieces(JSON.stringify(block.input))].map((partial_json) => ({
          type: 'input_json_delta',
          partial_json,
        })),
      };
    default:
      return {
        empty: { ...block, text: '' },
        deltas: text(block.text).map((piece) => ({ type: 'text_delta', text: piece })),
      };
  }
}
