/**
 * A stream of chat completion chunks as a stream of Responses events.
 *
 * `response.created`, `response.in_progress`, then for each item `added`, its deltas and `done`, then exactly one of
 * `response.completed`, `response.incomplete` and `response.failed`. Reasoning, text and tool calls follow one
 * another: an item is done before the next kind begins; only parallel tool calls stay open together. Whole answers use
 * the same code, so a stream and a whole answer with the same content give the same response.
 */
import { isObject } from '../../../json/is-object.ts';
import {
  annotationsIn,
  answerEnd,
  type CallDelta,
  type ChatError,
  callsIn,
  errorIn,
  firstChoice,
  logprobsIn,
  saidIn,
} from '../chat-delta.ts';
import { filled, type JsonObject, tokensOrZero } from '../json.ts';
import { mergedExtra } from '../responses-to-chat/reasoning.ts';
import { toolIdentities } from '../responses-to-chat/tools.ts';
import {
  EventQueue,
  OpenCall,
  type OpenItem,
  OpenMessage,
  OpenReasoning,
  type ReasoningForm,
  reasoningForm,
} from './open-items.ts';
import {
  type EnvelopeError,
  failedWithoutMessage,
  failureForClients,
  type ItemStatus,
  type Logprob,
  type ResponseEvent,
  type ResponseObject,
  type ResponseShell,
  type ResponseUsage,
  type StreamFailure,
  streamCutOff,
  type TerminalEventType,
  typeOfCode,
} from './response-object.ts';

interface ChatStreamEnd {
  /** Unix seconds, for a completed response. */
  readonly completedAt: number;
  /** Whether the answer is known to be whole even without a finish reason. Without both, the stream failed. */
  readonly endMarker: boolean;
}

export function createChatStreamTranslator(shell: ResponseShell): ChatStreamTranslator {
  return new ChatStreamTranslator(shell);
}

export class ChatStreamTranslator {
  /** How the stream ended; undefined before its end. After its end no method returns further events. */
  ended: TerminalEventType | undefined;
  /** The model of the answer is set from its first chunk on. */
  #shell: ResponseShell;
  readonly #root: string;
  readonly #tools: ReturnType<typeof toolIdentities>;
  readonly #form: ReasoningForm;
  readonly #queue = new EventQueue();
  readonly #items: OpenItem[] = [];
  readonly #done = new Set<OpenItem>();
  #started = false;
  #reasoning: OpenReasoning | undefined;
  #message: OpenMessage | undefined;
  readonly #calls = new CallLedger();
  readonly #callIds = new Set<string>();
  #heldLogprobs: Logprob[] = [];
  #heldAnnotations: JsonObject[] = [];
  #heldExtra: JsonObject | undefined;
  #finishReason: string | undefined;
  #usage: unknown;
  #serviceTier: string;
  #final: ResponseObject | undefined;

  constructor(shell: ResponseShell) {
    this.#shell = shell;
    this.#root = shell.id.startsWith('resp_') ? shell.id.slice('resp_'.length) : shell.id;
    this.#tools = toolIdentities(shell.tools);
    this.#form = reasoningForm(shell.include);
    this.#serviceTier = shell.service_tier;
  }

  /** One chunk, parsed. A chunk with an error ends the stream as failed. */
  push(chunk: unknown): ResponseEvent[] {
    if (this.ended !== undefined || !isObject(chunk)) return [];
    const error = errorIn(chunk);
    if (error !== undefined) {
      return this.fail({ ...error, type: typeOfCode(error.code), provider: this.#shell.provider });
    }
    const model = this.#started ? undefined : filled(chunk['model']);
    if (model !== undefined) this.#shell = { ...this.#shell, model };
    this.#start();
    if (isObject(chunk['usage'])) this.#usage = chunk['usage'];
    this.#serviceTier = filled(chunk['service_tier']) ?? this.#serviceTier;
    const choice = firstChoice(chunk);
    if (choice !== undefined) this.#hear(choice);
    return this.#queue.take();
  }

  /** The provider ended its stream in an orderly way. */
  finish(end: ChatStreamEnd): ResponseEvent[] {
    if (this.#finishReason === 'error') return this.fail(failedWithoutMessage(this.#shell.provider));
    const how = this.#finishReason === undefined ? undefined : answerEnd(this.#finishReason);
    if (how === 'length') return this.#end('response.incomplete', 'max_output_tokens');
    if (how === 'content_filter') return this.#end('response.incomplete', 'content_filter');
    if (how === 'interrupted') return this.fail(streamCutOff(this.#shell.provider));
    if (how === undefined && !end.endMarker) return this.fail(streamCutOff(this.#shell.provider));
    return this.#end('response.completed', null, end.completedAt);
  }

  /**
   * The answer ends early: an `error` event, then `response.failed`. No item that is still open is announced as done;
   * in the response it is `incomplete`.
   * @param status of the response; `cancelled` when its client ended it
   */
  fail(failure: StreamFailure, status: 'failed' | 'cancelled' = 'failed'): ResponseEvent[] {
    if (this.ended !== undefined) return [];
    this.#start();
    const { type, provider } = failure;
    const { code, message } = failureForClients(failure);
    const error: EnvelopeError = { type, code, message, param: null, ...(provider === undefined ? {} : { provider }) };
    this.#queue.add({ type: 'error', sequence_number: this.#queue.next(), code, message, param: null, error });
    const responseError = status === 'failed' ? { type, code, message } : null;
    this.#conclude('response.failed', { ...this.#read(), status, error: responseError });
    return this.#queue.take();
  }

  /** The response with its output so far. */
  snapshot(): ResponseObject {
    return this.#final ?? this.#read();
  }

  #start(): void {
    if (this.#started) return;
    this.#started = true;
    for (const type of ['response.created', 'response.in_progress'] as const) {
      this.#queue.add({ type, sequence_number: this.#queue.next(), response: this.#shell });
    }
  }

  #hear(choice: JsonObject): void {
    const delta = isObject(choice['delta']) ? choice['delta'] : {};
    const { text, reasoning } = saidIn(delta);
    if (reasoning !== '') this.#openReasoning().addText(this.#queue, reasoning);
    if (isObject(delta['extra_content'])) this.#readExtra(delta['extra_content']);
    const logprobs = logprobsIn(choice);
    if (logprobs.length > 0) this.#heldLogprobs.push(...logprobs);
    if (text !== '') this.#openMessage().addText(this.#queue, text, this.#takeLogprobs());
    const refusal = filled(delta['refusal']);
    if (refusal !== undefined) this.#openMessage().addRefusal(this.#queue, refusal);
    for (const annotation of annotationsIn(delta)) {
      const placed = this.#message?.addAnnotation(this.#queue, annotation) ?? false;
      if (!placed) this.#heldAnnotations.push(annotation);
    }
    for (const call of callsIn(delta)) this.#readCall(call);
    this.#finishReason = filled(choice['finish_reason']) ?? this.#finishReason;
  }

  /** Belongs to the current or the next message; if a call comes first, to the reasoning before it. */
  #readExtra(extra: JsonObject): void {
    if (this.#message === undefined) this.#heldExtra = mergedExtra(this.#heldExtra, extra);
    else this.#message.addExtra(extra);
  }

  #readCall(delta: CallDelta): void {
    const call = this.#calls.callOf(delta);
    call.held += delta.arguments;
    if (call.open === undefined) {
      if (delta.name === undefined) return;
      call.open = this.#openCall(call, delta.name, delta.extra);
    } else if (delta.extra !== undefined) {
      call.open.addExtra(delta.extra);
    }
    if (call.held === '') return;
    call.open.addArguments(this.#queue, call.held);
    call.held = '';
  }

  #openReasoning(): OpenReasoning {
    if (this.#reasoning === undefined) {
      this.#closeMessage();
      const index = this.#items.length;
      this.#reasoning = new OpenReasoning(this.#queue, `rs_${this.#root}_${index}`, index, this.#form);
      this.#items.push(this.#reasoning);
    }
    return this.#reasoning;
  }

  #openMessage(): OpenMessage {
    if (this.#message === undefined) {
      this.#closeReasoning();
      const index = this.#items.length;
      this.#message = new OpenMessage(this.#queue, `msg_${this.#root}_${index}`, index);
      this.#items.push(this.#message);
      this.#addHeldExtra(this.#message);
    }
    return this.#message;
  }

  #addHeldExtra(item: OpenReasoning | OpenMessage): void {
    if (this.#heldExtra !== undefined) item.addExtra(this.#heldExtra);
    this.#heldExtra = undefined;
  }

  #openCall(call: Call, name: string, extra: unknown): OpenCall {
    const carried = this.#form.carried && isObject(extra) ? extra : undefined;
    // A hidden thought has no text, but its signature must be sent back with the call.
    if (this.#heldExtra !== undefined || carried !== undefined) this.#addHeldExtra(this.#openReasoning());
    const index = this.#items.length;
    const free = call.id !== undefined && !this.#callIds.has(call.id);
    const id = free && call.id !== undefined ? call.id : `call_${this.#root}_${index}`;
    this.#callIds.add(id);
    if (carried !== undefined) this.#reasoning?.carryForCall(id, carried);
    this.#closeReasoning();
    this.#closeMessage();
    const tool = this.#tools.get(name) ?? { kind: 'function', name };
    const open = new OpenCall(this.#queue, this.#root, id, index, tool, extra);
    this.#items.push(open);
    return open;
  }

  #closeReasoning(): void {
    if (this.#reasoning !== undefined) this.#close(this.#reasoning, 'completed');
    this.#reasoning = undefined;
  }

  #closeMessage(status: ItemStatus = 'completed'): void {
    const message = this.#message;
    if (message === undefined) return;
    const logprobs = this.#takeLogprobs();
    if (logprobs.length > 0) message.addText(this.#queue, '', logprobs);
    this.#heldAnnotations = this.#heldAnnotations.filter((held) => !message.addAnnotation(this.#queue, held));
    this.#close(message, status);
    this.#message = undefined;
  }

  #close(item: OpenItem, status: ItemStatus): void {
    this.#done.add(item);
    item.close(this.#queue, status);
  }

  #takeLogprobs(): readonly Logprob[] {
    const held = this.#heldLogprobs;
    if (held.length > 0) this.#heldLogprobs = [];
    return held;
  }

  #end(type: TerminalEventType, reason: string | null, completedAt: number | null = null): ResponseEvent[] {
    if (this.ended !== undefined) return [];
    this.#start();
    for (const call of this.#calls.nameless()) {
      call.open = this.#openCall(call, '', undefined);
      call.open.addArguments(this.#queue, call.held);
    }
    if (this.#heldExtra !== undefined) this.#addHeldExtra(this.#openReasoning());
    if (this.#items.length === 0 && type === 'response.completed') this.#openMessage().addText(this.#queue, '');
    const last = this.#items.length - 1;
    const lastStatus = type === 'response.completed' ? 'completed' : 'incomplete';
    for (const item of this.#items) {
      const status = item.index === last ? lastStatus : 'completed';
      if (item === this.#message) this.#closeMessage(status);
      else if (!this.#done.has(item)) this.#close(item, status);
    }
    const output = this.#items.map((item) => item.read(item.index === last ? lastStatus : 'completed'));
    this.#conclude(type, {
      ...this.#read(),
      status: type === 'response.completed' ? 'completed' : 'incomplete',
      completed_at: completedAt,
      incomplete_details: reason === null ? null : { reason },
      output,
    });
    return this.#queue.take();
  }

  #conclude(type: TerminalEventType, response: ResponseObject): void {
    this.ended = type;
    this.#final = response;
    this.#queue.add({ type, sequence_number: this.#queue.next(), response });
  }

  /** Items that are not done are incomplete, which is their final state if nothing more arrives. */
  #read(): ResponseObject {
    return {
      ...this.#shell,
      service_tier: this.#serviceTier,
      output: this.#items.map((item) => item.read(this.#done.has(item) ? 'completed' : 'incomplete')),
      usage: responseUsage(this.#usage),
    };
  }
}

/** Tokens with both sets of names. Null when the provider reported none: no value is estimated. */
export function responseUsage(usage: unknown): ResponseUsage | null {
  if (!isObject(usage)) return null;
  const input = tokensOrZero(usage['prompt_tokens'] ?? usage['input_tokens']);
  const output = tokensOrZero(usage['completion_tokens'] ?? usage['output_tokens']);
  const prompt = details(usage['prompt_tokens_details'] ?? usage['input_tokens_details']);
  const completion = details(usage['completion_tokens_details'] ?? usage['output_tokens_details']);
  const cached = tokensOrZero(prompt['cached_tokens'] ?? usage['prompt_cache_hit_tokens']);
  const reasoning = tokensOrZero(completion['reasoning_tokens'] ?? usage['reasoning_tokens']);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: tokensOrZero(prompt['cache_write_tokens']) },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: (usage['total_tokens'] ?? null) === null ? input + output : tokensOrZero(usage['total_tokens']),
    prompt_tokens_details: { ...prompt, cached_tokens: cached },
    completion_tokens_details: { ...completion, reasoning_tokens: reasoning },
    raw_usage: usage,
  };
}

function details(value: unknown): JsonObject {
  if (!isObject(value)) return {};
  return Object.fromEntries(Object.entries(value).filter(([, tokens]) => typeof tokens === 'number'));
}

// Assigns the pieces of a stream to tool calls. Servers identify calls by index, by id, or not at all.

/** A tool call as identified in the provider's chunks; `open` once its name is known. */
interface Call {
  id: string | undefined;
  /** Arguments that arrived before the name. */
  held: string;
  open?: OpenCall;
}

class CallLedger {
  readonly #calls: Call[] = [];
  readonly #byIndex = new Map<number, Call>();

  /** The call of a piece, a new one if necessary. Some servers give every call the index 0. */
  callOf(delta: CallDelta): Call {
    const known = this.#find(delta);
    const another = delta.id !== undefined && delta.name !== undefined && known?.id !== delta.id;
    if (known !== undefined && !(another && known.open !== undefined)) {
      if (known.open === undefined) known.id ??= delta.id;
      return known;
    }
    const call: Call = { id: delta.id, held: '' };
    this.#calls.push(call);
    if (delta.index !== undefined) this.#byIndex.set(delta.index, call);
    return call;
  }

  /** Calls with arguments that never got a name; their arguments must not be lost. */
  nameless(): Call[] {
    return this.#calls.filter((call) => call.open === undefined && call.held !== '');
  }

  #find({ index, id, name }: CallDelta): Call | undefined {
    if (index !== undefined) return this.#byIndex.get(index);
    if (id !== undefined) return this.#calls.find((call) => call.id === id);
    return name === undefined ? this.#calls.at(-1) : undefined;
  }
}

type TranslatedAnswer =
  | { readonly ok: true; readonly response: ResponseObject }
  /** The provider returned an object that is not an answer: 502 for the client. */
  | { readonly ok: false; readonly error: ChatError };

/**
 * A whole chat completion as a finished response. The same completion and shell always give the same bytes.
 *
 * `finish_reason` `length` and `content_filter` make it `incomplete`; one that ends an answer (`answerEnd`), or
 * none, makes it `completed`. With any other it is not an answer.
 *
 * @param completedAt unix seconds
 */
export function responseFromChat(completion: unknown, shell: ResponseShell, completedAt: number): TranslatedAnswer {
  const chunk = asOneChunk(completion);
  if (!isObject(completion) || chunk === undefined) {
    const error = isObject(completion) ? errorIn(completion) : undefined;
    const message = `Provider '${shell.provider}' gave an answer without a choice.`;
    return { ok: false, error: error ?? { code: 'provider_error', message } };
  }
  const translator = createChatStreamTranslator(shell);
  translator.push(chunk);
  translator.finish({ completedAt, endMarker: true });
  const response = translator.snapshot();
  if (response.error === null) return { ok: true, response };
  const { error } = response;
  return { ok: false, error: error.code === 'stream_incomplete' ? interrupted(shell.provider) : error };
}

function interrupted(provider: string): ChatError {
  const message = `The provider '${provider}' gave an answer that was interrupted before it was complete.`;
  return { code: 'answer_incomplete', message };
}

/** A whole answer as a stream with a single chunk. */
function asOneChunk(completion: unknown): JsonObject | undefined {
  if (!isObject(completion) || !Array.isArray(completion['choices'])) return undefined;
  const choice: unknown = completion['choices'][0];
  if (!isObject(choice) || !isObject(choice['message'])) return undefined;
  const { message } = choice;
  const calls = message['tool_calls'];
  const delta = Array.isArray(calls)
    ? { ...message, tool_calls: calls.filter(isObject).map((call, index) => ({ ...call, index })) }
    : message;
  return {
    model: completion['model'],
    usage: completion['usage'],
    service_tier: completion['service_tier'],
    choices: [{ index: 0, delta, logprobs: choice['logprobs'], finish_reason: choice['finish_reason'] }],
  };
}
