/**
 * Reads an answer of the Messages API as chat completions. A whole answer is read as the equivalent stream.
 *
 * | Messages | Chat |
 * |---|---|
 * | `text` | `content`; web citations become `annotations` |
 * | `thinking` | `reasoning_content`, and whole with its signature in `extra_content` (see messages.ts) |
 * | `redacted_thinking` | in `extra_content` only |
 * | `tool_use` | tool call: its head at once, then the arguments as they arrive |
 * | `tool_use` of the tool for JSON answers | its input as `content`; without another call the finish reason is `stop` |
 * | other blocks (records of Anthropic's own tools) | left out: their result is in the text |
 * | `message_delta` | the chunk with `finish_reason`, then the one with `usage` |
 * | `ping`, unknown events | nothing |
 * | `error` | the error, unchanged |
 */
import { isObject } from '../../../json/is-object.ts';
import { type ChatAnswerFacts, type ChatReader, completionOf } from '../chat-adapter.ts';
import { filled, type JsonObject, parsedObject, reportedCount, totalOf, unreadableCounts } from '../json.ts';
import { extraContentWith, isThinking, type KeptBlock } from './messages.ts';
import { jsonAnswerTool } from './tools.ts';

const finishReasons: ReadonlyMap<unknown, string> = new Map([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
]);

/** Anthropic's service tiers with OpenAI's names. */
const serviceTiers: ReadonlyMap<unknown, string> = new Map([
  ['standard', 'default'],
  ['priority', 'priority'],
]);

interface OpenCall {
  readonly index: number;
  readonly input: unknown;
  hasArguments: boolean;
}

type OpenBlock =
  | { readonly type: 'text'; readonly from: number; readonly citations: JsonObject[] }
  | { readonly type: 'thinking'; block: JsonObject }
  | { readonly type: 'call'; readonly call: OpenCall }
  | { readonly type: 'json'; readonly input: unknown; hasText: boolean };

export class MessagesAnswerReader implements ChatReader {
  readonly #facts: ChatAnswerFacts;
  #id: string;
  #model: string;
  answerId: string | undefined;
  #ended = false;
  #usage: JsonObject = {};
  readonly #blocks = new Map<unknown, OpenBlock>();
  /** Thinking since the last call: it is attached to the next one. */
  #kept: KeptBlock[] = [];
  #textLength = 0;
  #hasThought = false;
  #calls = 0;
  #finished = false;
  /** The model has called the tool whose input is the answer. */
  #answersInJson = false;

  constructor(facts: ChatAnswerFacts) {
    this.#facts = facts;
    this.#id = facts.id;
    this.#model = facts.model;
  }

  whole(answer: unknown): unknown {
    if (!isObject(answer)) return answer;
    if (!Array.isArray(answer['content'])) {
      this.#usage = mergedUsage(this.#usage, answer['usage']);
      return answer;
    }
    const { content, stop_reason, stop_sequence, usage, ...message } = answer;
    const events: JsonObject[] = [{ type: 'message_start', message: { ...message, usage } }];
    for (const [index, block] of content.entries()) {
      events.push({ type: 'content_block_start', index, content_block: block }, { type: 'content_block_stop', index });
    }
    events.push({ type: 'message_delta', delta: { stop_reason: stop_reason ?? 'end_turn', stop_sequence } });
    return completionOf(events.flatMap((event) => this.#read(event)));
  }

  chunks(data: string): readonly JsonObject[] | undefined {
    if (data.trim() === '') return [];
    const event = parsedObject(data);
    return event === undefined ? undefined : this.#read(event);
  }

  get ended(): boolean {
    return this.#ended;
  }

  get counted(): JsonObject | null {
    return chatUsage(this.#usage);
  }

  #read(event: JsonObject): JsonObject[] {
    switch (event['type']) {
      case 'message_start':
        return this.#start(event['message']);
      case 'content_block_start':
        return this.#open(event['index'], event['content_block']);
      case 'content_block_delta':
        return this.#add(event['index'], event['delta']);
      case 'content_block_stop':
        return this.#close(event['index']);
      case 'message_delta':
        return this.#finish(event);
      case 'message_stop':
        this.#ended = true;
        return [];
      case 'error':
        return [event];
      default:
        // Other servers with this API may report an error in OpenAI's format.
        return event['type'] === undefined && isObject(event['error']) ? [event] : [];
    }
  }

  #start(message: unknown): JsonObject[] {
    if (isObject(message)) {
      this.answerId = filled(message['id']);
      this.#id = this.answerId ?? this.#id;
      this.#model = filled(message['model']) ?? this.#model;
      this.#usage = mergedUsage(this.#usage, message['usage']);
    }
    return [this.#says({ role: 'assistant', content: '' })];
  }

  #open(index: unknown, block: unknown): JsonObject[] {
    if (!isObject(block)) return [];
    switch (block['type']) {
      case 'text': {
        const citations = Array.isArray(block['citations']) ? block['citations'].filter(isObject) : [];
        this.#blocks.set(index, { type: 'text', from: this.#textLength, citations });
        return this.#text(block['text']);
      }
      case 'thinking': {
        const { thinking, ...rest } = block;
        const open: OpenBlock = { type: 'thinking', block: { ...rest, thinking: '' } };
        this.#blocks.set(index, open);
        return this.#thought(open, thinking);
      }
      case 'redacted_thinking':
        this.#blocks.set(index, { type: 'thinking', block });
        return [];
      case 'tool_use':
        if (block['name'] === jsonAnswerTool) return this.#openJson(index, block['input']);
        return this.#openCall(index, block);
      default:
        return [];
    }
  }

  #openCall(index: unknown, block: JsonObject): JsonObject[] {
    const call = { index: this.#calls, input: block['input'], hasArguments: false };
    this.#calls += 1;
    this.#blocks.set(index, { type: 'call', call });
    const { id, name } = block;
    const head = { index: call.index, id, type: 'function', function: { name, arguments: '' } };
    const kept = this.#kept;
    this.#kept = [];
    const extra = kept.length === 0 ? {} : { extra_content: extraContentWith(kept) };
    return [this.#says({ tool_calls: [{ ...head, ...extra }] })];
  }

  /** A second answer of the same turn is left out: two objects are no JSON text. */
  #openJson(index: unknown, input: unknown): JsonObject[] {
    if (!this.#answersInJson) this.#blocks.set(index, { type: 'json', input, hasText: false });
    this.#answersInJson = true;
    return [];
  }

  #json(open: Extract<OpenBlock, { type: 'json' }>, text: unknown): JsonObject[] {
    const addedText = filled(text);
    if (addedText === undefined) return [];
    open.hasText = true;
    return this.#text(addedText);
  }

  #add(index: unknown, delta: unknown): JsonObject[] {
    const open = this.#blocks.get(index);
    if (open === undefined || !isObject(delta)) return [];
    switch (delta['type']) {
      case 'text_delta':
        return this.#text(delta['text']);
      case 'citations_delta':
        if (open.type === 'text' && isObject(delta['citation'])) open.citations.push(delta['citation']);
        return [];
      case 'thinking_delta':
        return open.type === 'thinking' ? this.#thought(open, delta['thinking']) : [];
      case 'signature_delta':
        if (open.type === 'thinking') open.block = { ...open.block, signature: delta['signature'] };
        return [];
      case 'input_json_delta':
        if (open.type === 'json') return this.#json(open, delta['partial_json']);
        return open.type === 'call' ? this.#arguments(open.call, filled(delta['partial_json'])) : [];
      default:
        return [];
    }
  }

  #close(index: unknown): JsonObject[] {
    const open = this.#blocks.get(index);
    this.#blocks.delete(index);
    if (open === undefined) return [];
    if (open.type === 'text') return this.#cited(open.from, open.citations);
    if (open.type === 'json') return open.hasText ? [] : this.#json(open, JSON.stringify(open.input ?? {}));
    if (open.type === 'thinking') {
      return isThinking(open.block) ? this.#keep({ block: open.block, afterText: this.#textLength }) : [];
    }
    // A whole answer contains the input from the beginning; a call without arguments gets `{}`.
    return open.call.hasArguments ? [] : this.#arguments(open.call, JSON.stringify(open.call.input ?? {}));
  }

  #finish({ delta, usage }: JsonObject): JsonObject[] {
    this.#usage = mergedUsage(this.#usage, usage);
    const { stop_reason: reason, stop_sequence: sequence } = isObject(delta) ? delta : {};
    if (this.#finished || typeof reason !== 'string') return [];
    this.#finished = true;
    const choice = {
      ...choiceOf({}),
      finish_reason: this.#finishReason(reason),
      ...(typeof sequence === 'string' ? { stop_sequence: sequence } : {}),
    };
    const counted = chatUsage(this.#usage);
    const end = this.#chunk({ choices: [choice] });
    return counted === null ? [end] : [end, this.#chunk({ choices: [], usage: counted })];
  }

  #finishReason(reason: string): string {
    if (reason === 'tool_use' && this.#answersInJson && this.#calls === 0) return 'stop';
    return finishReasons.get(reason) ?? 'stop';
  }

  #text(text: unknown): JsonObject[] {
    const addedText = filled(text);
    if (addedText === undefined) return [];
    this.#textLength += addedText.length;
    return [this.#says({ content: addedText })];
  }

  #thought(open: { block: JsonObject }, text: unknown): JsonObject[] {
    const addedText = filled(text);
    if (addedText === undefined) return [];
    const before = filled(open.block['thinking']) ?? '';
    open.block = { ...open.block, thinking: before + addedText };
    const apart = before === '' && this.#hasThought ? '\n\n' : '';
    this.#hasThought = true;
    return [this.#says({ reasoning_content: apart + addedText })];
  }

  #arguments(call: OpenCall, json: string | undefined): JsonObject[] {
    if (json === undefined) return [];
    call.hasArguments = true;
    return [this.#says({ tool_calls: [{ index: call.index, function: { arguments: json } }] })];
  }

  #cited(from: number, citations: readonly JsonObject[]): JsonObject[] {
    const annotations = citations.flatMap(({ url, title }) =>
      typeof url === 'string'
        ? [
            {
              type: 'url_citation',
              url_citation: { url, title: filled(title) ?? url, start_index: from, end_index: this.#textLength },
            },
          ]
        : [],
    );
    return annotations.length === 0 ? [] : [this.#says({ annotations })];
  }

  #keep(thought: KeptBlock): JsonObject[] {
    this.#kept.push(thought);
    return [this.#says({ extra_content: extraContentWith([thought]) })];
  }

  #says(delta: JsonObject): JsonObject {
    return this.#chunk({ choices: [{ ...choiceOf(delta), finish_reason: null }] });
  }

  #chunk(members: JsonObject): JsonObject {
    const tier = serviceTiers.get(this.#usage['service_tier']);
    return {
      id: this.#id,
      object: 'chat.completion.chunk',
      created: this.#facts.createdAt,
      model: this.#model,
      ...(tier === undefined ? {} : { service_tier: tier }),
      ...members,
    };
  }
}

function choiceOf(delta: JsonObject): JsonObject {
  return { index: 0, delta, logprobs: null };
}

// Usage in the format of chat completions. Anthropic counts tokens read from its cache, or written to it, in addition
// to `input_tokens`; chat completions include them.

/** Null when nothing was reported: no value is estimated. A side that is not reported as a number is null. */
function chatUsage(usage: JsonObject): JsonObject | null {
  const input = reportedCount(usage['input_tokens']);
  const completion = reportedCount(usage['output_tokens']);
  const unreadable = unreadableCounts(usage, ['input_tokens', 'output_tokens']);
  if (input === null && completion === null) return null;
  const cached = count(usage['cache_read_input_tokens']);
  const written = count(usage['cache_creation_input_tokens']);
  const writes = usage['cache_creation'];
  const forAnHour = isObject(writes) ? count(writes['ephemeral_1h_input_tokens']) : 0;
  const prompt = input === null ? null : input + cached + written;
  const details = usage['output_tokens_details'];
  const thought = isObject(details) ? details['thinking_tokens'] : undefined;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: totalOf(prompt, completion),
    ...unreadable,
    prompt_tokens_details: {
      cached_tokens: cached,
      cache_write_tokens: written,
      // A write for an hour costs more than one for five minutes.
      ...(forAnHour > 0 ? { cache_write_1h_tokens: forAnHour } : {}),
    },
    ...(typeof thought === 'number' ? { completion_tokens_details: { reasoning_tokens: thought } } : {}),
  };
}

/** A later report replaces an earlier one, member by member: the counts of a stream are cumulative. */
function mergedUsage(before: JsonObject, report: unknown): JsonObject {
  if (!isObject(report)) return before;
  const counts = Object.entries(report).filter(([, value]) => value !== null && value !== undefined);
  return { ...before, ...Object.fromEntries(counts) };
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
}
