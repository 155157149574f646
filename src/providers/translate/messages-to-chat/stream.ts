/**
 * A stream of chat completion chunks as a stream of Messages events.
 *
 * `message_start`, then for each content block `content_block_start`, its deltas and `content_block_stop`, then
 * `message_delta` and `message_stop`. Blocks follow one another, as in Anthropic's streams, so pieces of a second tool
 * call wait until the input of the first is whole. Whole answers use the same code, so a stream and a
 * whole answer with the same content give the same message.
 */
import { isObject } from '../../../json/is-object.ts';
import { answerEnd, type CallDelta, callsIn, firstChoice, saidIn } from '../chat-delta.ts';
import { filled, type JsonObject, parsedObject } from '../json.ts';
import {
  type BlockDelta,
  type ContentBlock,
  type Message,
  type MessageEvent,
  type MessageShell,
  messageUsage,
  type StopReason,
  signatureOf,
  type TextBlock,
  type ThinkingBlock,
  type ToolUseBlock,
} from './message-object.ts';

/** A tool call as identified in the provider's chunks. */
interface Call {
  id: string | undefined;
  named: boolean;
  readonly block: OpenToolUse;
}

export function createMessageStreamTranslator(shell: MessageShell): MessageStreamTranslator {
  return new MessageStreamTranslator(shell);
}

export class MessageStreamTranslator {
  readonly #shell: MessageShell;
  readonly #root: string;
  #events: MessageEvent[] = [];
  readonly #blocks: OpenBlock[] = [];
  /** Index of the block whose events are being produced, and whether its start was. */
  #current = 0;
  #begun = false;
  #started = false;
  #finished = false;
  readonly #calls: Call[] = [];
  readonly #callByIndex = new Map<number, Call>();
  #finishReason: string | undefined;
  #stopSequence: string | undefined;
  #refused = false;
  #usage: unknown;
  #model: string;

  constructor(shell: MessageShell) {
    this.#shell = shell;
    this.#model = shell.model;
    this.#root = shell.id.replace(/^msg_/, '');
  }

  /** Whether the provider sent a finish reason of a whole answer. */
  get stopped(): boolean {
    return this.#finishReason !== undefined && !this.interrupted;
  }

  /** Whether it sent a finish reason of an answer that is not whole. */
  get interrupted(): boolean {
    return this.#finishReason !== undefined && answerEnd(this.#finishReason) === 'interrupted';
  }

  /** One chunk, parsed. */
  push(chunk: unknown): MessageEvent[] {
    if (this.#finished || !isObject(chunk)) return [];
    if (isObject(chunk['usage'])) this.#usage = chunk['usage'];
    if (!this.#started) this.#model = filled(chunk['model']) ?? this.#model;
    this.#start();
    const choice = firstChoice(chunk);
    if (choice !== undefined) this.#readChoice(choice);
    this.#tell(false);
    return this.#take();
  }

  /** To be called after the provider's last chunk. */
  finish(): MessageEvent[] {
    if (this.#finished) return [];
    this.#start();
    this.#tell(true);
    this.#finished = true;
    const { stop_reason, stop_sequence, usage } = this.message();
    this.#events.push(
      { type: 'message_delta', delta: { stop_reason, stop_sequence }, usage },
      { type: 'message_stop' },
    );
    return this.#take();
  }

  /** The message with its content so far. */
  message(): Message {
    const reason = this.#finished ? this.#stopReason() : null;
    return {
      ...this.#empty(),
      content: this.#blocks.map((block) => block.read()),
      stop_reason: reason,
      stop_sequence: reason === 'stop_sequence' ? (this.#stopSequence ?? null) : null,
    };
  }

  #empty(): Message {
    const { id } = this.#shell;
    const usage = messageUsage(this.#usage);
    return {
      id,
      type: 'message',
      role: 'assistant',
      model: this.#model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage,
    };
  }

  #start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#events.push({ type: 'message_start', message: this.#empty() });
  }

  #readChoice(choice: JsonObject): void {
    const delta = isObject(choice['delta']) ? choice['delta'] : {};
    const { text, reasoning } = saidIn(delta);
    if (reasoning !== '' && this.#shell.thoughts !== 'left_out') this.#openThinking().add(reasoning);
    if (text !== '') this.#openText().add(text);
    const refusal = filled(delta['refusal']);
    if (refusal !== undefined) {
      this.#refused = true;
      this.#openText().add(refusal);
    }
    for (const call of callsIn(delta)) this.#callOf(call).add(call.name, call.arguments, call.extra);
    this.#finishReason = filled(choice['finish_reason']) ?? this.#finishReason;
    this.#stopSequence = namedStop(choice, this.#shell.stopSequences) ?? this.#stopSequence;
  }

  #openText(): OpenText {
    const last = this.#blocks.at(-1);
    return last instanceof OpenText ? last : this.#opened(new OpenText());
  }

  #openThinking(): OpenThinking {
    const last = this.#blocks.at(-1);
    return last instanceof OpenThinking ? last : this.#opened(new OpenThinking(this.#shell.thoughts === 'sealed'));
  }

  #opened<Block extends OpenBlock>(block: Block): Block {
    this.#blocks.push(block);
    return block;
  }

  /** Servers identify calls by index, by id, or not at all; some give every call the index 0. */
  #callOf(delta: CallDelta): OpenToolUse {
    let known: Call | undefined;
    if (delta.index !== undefined) known = this.#callByIndex.get(delta.index);
    else if (delta.id !== undefined) known = this.#calls.find((call) => call.id === delta.id);
    else if (delta.name === undefined) known = this.#calls.at(-1);
    const call = known === undefined || isAnother(known, delta) ? this.#newCall(delta) : known;
    if (!call.named && call.id === undefined && this.#isFree(delta.id)) {
      call.id = delta.id;
      call.block.id = delta.id;
    }
    call.named ||= delta.name !== undefined;
    return call.block;
  }

  #newCall({ id, index }: CallDelta): Call {
    const own = this.#isFree(id) ? id : `toolu_${this.#root}_${this.#blocks.length}`;
    const call: Call = { id, named: false, block: this.#opened(new OpenToolUse(own)) };
    this.#calls.push(call);
    if (index !== undefined) this.#callByIndex.set(index, call);
    return call;
  }

  #isFree(id: string | undefined): id is string {
    return id !== undefined && !this.#calls.some(({ block }) => block.id === id);
  }

  /** Produces the events that are possible now. @param all at the end: everything that remains */
  #tell(all: boolean): void {
    for (;;) {
      const index = this.#current;
      const block = this.#blocks[index];
      if (block === undefined || !(block.canBegin || all)) return;
      if (!this.#begun) {
        this.#begun = true;
        this.#events.push({ type: 'content_block_start', index, content_block: block.empty() });
      }
      for (const delta of block.take()) this.#events.push({ type: 'content_block_delta', index, delta });
      const isLast = index === this.#blocks.length - 1;
      if (!all && (isLast || !block.canEnd)) return;
      for (const delta of block.last()) this.#events.push({ type: 'content_block_delta', index, delta });
      this.#events.push({ type: 'content_block_stop', index });
      this.#current += 1;
      this.#begun = false;
    }
  }

  #take(): MessageEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }

  /** The stop reason. An answer that was cut off is not a tool call, even if a call looks finished. */
  #stopReason(): StopReason {
    const how = answerEnd(this.#finishReason ?? 'stop');
    if (how === 'length') return 'max_tokens';
    if (how === 'content_filter' || this.#refused) return 'refusal';
    if (this.#calls.length > 0) return 'tool_use';
    return this.#stopSequence === undefined ? 'end_turn' : 'stop_sequence';
  }
}

/** Whether a call with the index of a known one is a separate call. */
function isAnother({ id, named, block }: Call, delta: CallDelta): boolean {
  if (!named || delta.name === undefined) return false;
  return delta.id === undefined ? block.canEnd && delta.arguments !== '' : delta.id !== id;
}

/** Members in which servers name the stop sequence that ended an answer: those of vLLM, SGLang, and Anthropic. */
const STOP_MEMBERS = ['stop_sequence', 'stop_reason', 'matched_stop'];

function namedStop(choice: JsonObject, sequences: readonly string[]): string | undefined {
  for (const member of STOP_MEMBERS) {
    const named = sequences.find((sequence) => sequence === choice[member]);
    if (named !== undefined) return named;
  }
  return undefined;
}

/** The open content blocks of a streamed message. Each produces its events while it grows. */
interface OpenBlock {
  readonly kind: ContentBlock['type'];
  /** Whether enough is known for its start event. */
  readonly canBegin: boolean;
  /** Whether it may end: nothing more is expected once another block has begun. */
  readonly canEnd: boolean;
  /** The block in its start event. */
  empty(): ContentBlock;
  /** The additions since the last call. */
  take(): BlockDelta[];
  /** The final deltas at its end. */
  last(): BlockDelta[];
  read(): ContentBlock;
}

class OpenText implements OpenBlock {
  readonly kind = 'text';
  readonly canBegin = true;
  readonly canEnd = true;
  #text = '';
  /** Kept beside the whole text: a part of a long text that grows cannot be read without copying all of it. */
  #unsent = '';

  add(text: string): void {
    this.#text += text;
    this.#unsent += text;
  }

  empty(): TextBlock {
    return { type: 'text', text: '' };
  }

  take(): BlockDelta[] {
    const text = this.#unsent;
    this.#unsent = '';
    return text === '' ? [] : [{ type: 'text_delta', text }];
  }

  last(): BlockDelta[] {
    return [];
  }

  read(): TextBlock {
    return { type: 'text', text: this.#text };
  }
}

class OpenThinking implements OpenBlock {
  readonly kind = 'thinking';
  readonly canBegin = true;
  readonly canEnd = true;
  readonly #sealed: boolean;
  #text = '';
  #unsent = '';

  constructor(sealed: boolean) {
    this.#sealed = sealed;
  }

  add(text: string): void {
    this.#text += text;
    this.#unsent += text;
  }

  empty(): ThinkingBlock {
    return { type: 'thinking', thinking: '', signature: '' };
  }

  take(): BlockDelta[] {
    if (this.#sealed) return [];
    const thinking = this.#unsent;
    this.#unsent = '';
    return thinking === '' ? [] : [{ type: 'thinking_delta', thinking }];
  }

  last(): BlockDelta[] {
    return [{ type: 'signature_delta', signature: this.#signature() }];
  }

  read(): ThinkingBlock {
    return { type: 'thinking', thinking: this.#sealed ? '' : this.#text, signature: this.#signature() };
  }

  #signature(): string {
    return signatureOf(this.#sealed ? this.#text : '');
  }
}

class OpenToolUse implements OpenBlock {
  readonly kind = 'tool_use';
  /** May be set until the block has begun. */
  id: string;
  #name: string | undefined;
  #extra: unknown;
  #json = '';
  #unsent = '';
  #isWhole = false;

  constructor(id: string) {
    this.id = id;
  }

  get canBegin(): boolean {
    return this.#name !== undefined;
  }

  /** Once its input is a whole object, since the pieces of parallel calls may alternate. */
  get canEnd(): boolean {
    return this.#isWhole;
  }

  add(name: string | undefined, json: string, extra: unknown): void {
    this.#name ??= name;
    this.#extra ??= extra;
    if (json === '' || this.#isWhole) return;
    this.#json += json;
    this.#unsent += json;
    // Only white space can follow a whole object. Most pieces cannot be the end of one.
    this.#isWhole = json.trimEnd().endsWith('}') && this.#input() !== undefined;
  }

  empty(): ToolUseBlock {
    const { id } = this;
    const block = { type: 'tool_use' as const, id, name: this.#name ?? '', input: {} };
    return this.#extra === undefined ? block : { ...block, extra_content: this.#extra };
  }

  take(): BlockDelta[] {
    const partial_json = this.#unsent;
    this.#unsent = '';
    return partial_json === '' ? [] : [{ type: 'input_json_delta', partial_json }];
  }

  last(): BlockDelta[] {
    return [];
  }

  read(): ToolUseBlock {
    return { ...this.empty(), input: this.#json.trim() === '' ? {} : (this.#input() ?? { INVALID_JSON: this.#json }) };
  }

  #input(): object | undefined {
    return parsedObject(this.#json);
  }
}

/**
 * A whole chat completion as a message; undefined when it contains no answer, or an interrupted one. The same
 * completion and shell always give the same message.
 *
 * | `finish_reason` | `stop_reason` |
 * |---|---|
 * | `length` | `max_tokens` |
 * | `content_filter`, or a refusal in its own member | `refusal` |
 * | anything else, with a tool call | `tool_use` |
 * | anything else | `stop_sequence` when the provider names the sequence, else `end_turn` |
 */
export function messageFromChat(completion: unknown, shell: MessageShell): Message | undefined {
  const chunk = asOneChunk(completion);
  if (chunk === undefined) return undefined;
  const translator = createMessageStreamTranslator(shell);
  translator.push(chunk);
  if (translator.interrupted) return undefined;
  translator.finish();
  return translator.message();
}

/** A whole answer as a stream with a single chunk. */
function asOneChunk(completion: unknown): JsonObject | undefined {
  if (!isObject(completion) || !Array.isArray(completion['choices'])) return undefined;
  const choice: unknown = completion['choices'][0];
  if (!isObject(choice) || !isObject(choice['message'])) return undefined;
  const { message, index: _index, ...rest } = choice;
  const calls = message['tool_calls'];
  const delta = Array.isArray(calls)
    ? { ...message, tool_calls: calls.filter(isObject).map((call, index) => ({ ...call, index })) }
    : message;
  return { model: completion['model'], usage: completion['usage'], choices: [{ ...rest, index: 0, delta }] };
}
