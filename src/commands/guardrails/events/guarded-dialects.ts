/** The events of a streamed answer by dialect. */

import { isObject } from '../../../json/is-object.ts';
import { restoreValues } from '../body/restore-values.ts';
import type { StreamChannel, TextKind } from '../guardrail-type.ts';
import type { TextPhase } from '../phases/guardrail-step.ts';
import type { Placeholders } from '../placeholders.ts';
import { GuardedChatEvents } from './chat-events.ts';
import { type GuardedEvents, matchingTokens, type StreamEvent, WrittenTexts } from './guarded-events.ts';

export type StreamDialect = 'chat' | 'completions' | 'messages' | 'responses';

export function guardedEvents(dialect: StreamDialect, phase: TextPhase, placeholders: Placeholders): GuardedEvents {
  if (dialect === 'responses') return new GuardedResponsesEvents(phase, placeholders);
  if (dialect === 'messages') return new GuardedMessagesEvents(phase, placeholders);
  return new GuardedChatEvents(phase, placeholders);
}

// Events of a streamed message (Anthropic, "Streaming Messages").

/** The member with the text of each kind of delta. */
const deltaMembers: Readonly<Record<string, Pick<StreamChannel, 'kind' | 'isJson'> & { readonly member: string }>> = {
  text_delta: { member: 'text', kind: 'text', isJson: false },
  thinking_delta: { member: 'thinking', kind: 'reasoning', isJson: false },
  input_json_delta: { member: 'partial_json', kind: 'tool_arguments', isJson: true },
};

class GuardedMessagesEvents implements GuardedEvents {
  readonly #texts: WrittenTexts;
  readonly #placeholders: Placeholders;
  /** The kind of delta of each open block. */
  readonly #deltaTypes = new Map<string, string>();

  constructor(phase: TextPhase, placeholders: Placeholders) {
    this.#texts = new WrittenTexts(phase, false);
    this.#placeholders = placeholders;
  }

  get stop(): GuardedEvents['stop'] {
    return this.#texts.stop;
  }

  events(event: StreamEvent): readonly StreamEvent[] {
    if (this.stop !== undefined) return [];
    const { type, index, delta } = event;
    if (type === 'content_block_delta' && isObject(delta)) return this.#delta(event, delta);
    const restored = this.#restored(event);
    if (type === 'content_block_stop')
      return this.stop === undefined ? [...this.#rest(String(index)), ...this.#unlessStopped(restored)] : [];
    if (type === 'content_block_start') return this.#start(event, restored);
    return [restored];
  }

  finish(): readonly StreamEvent[] {
    return this.stop === undefined ? this.#texts.open.flatMap(({ key }) => this.#rest(key)) : [];
  }

  #start(event: StreamEvent, restored: StreamEvent): readonly StreamEvent[] {
    const block = event['content_block'];
    if (!isObject(block)) return [restored];
    for (const member of ['text', 'thinking']) {
      const given = block[member];
      if (typeof given !== 'string' || given === '') continue;
      const type = `${member}_delta`;
      const first = { ...event, content_block: { ...block, [member]: '' } };
      const { index } = event;
      return [first, ...this.#delta({ type: 'content_block_delta', index }, { type, [member]: given })];
    }
    return [restored];
  }

  #delta(event: StreamEvent, delta: StreamEvent): readonly StreamEvent[] {
    const key = String(event['index']);
    const type = String(delta['type']);
    const known = deltaMembers[type];
    const given = known === undefined ? undefined : delta[known.member];
    if (known === undefined || typeof given !== 'string') {
      // A signature covers the thinking before it, which is complete.
      const rest = type === 'signature_delta' ? this.#rest(key) : [];
      return [...rest, ...this.#unlessStopped(this.#restored(event))];
    }
    this.#deltaTypes.set(key, type);
    const { member, kind, isJson } = known;
    const text = this.#texts.push({ key, kind, isJson }, given);
    return text === '' && given !== '' ? [] : [{ ...event, delta: { ...delta, [member]: text } }];
  }

  #rest(key: string): readonly StreamEvent[] {
    const channel = this.#texts.open.find((one) => one.key === key);
    const type = this.#deltaTypes.get(key);
    const known = deltaMembers[type ?? ''];
    if (channel === undefined || known === undefined) return [];
    const text = this.#texts.end(channel);
    if (text === '') return [];
    return [{ type: 'content_block_delta', index: Number(key), delta: { type, [known.member]: text } }];
  }

  #unlessStopped(event: StreamEvent): readonly StreamEvent[] {
    return this.stop === undefined ? [event] : [];
  }

  #restored(event: StreamEvent): StreamEvent {
    const evaluated = this.#texts.separateMembers(event, 'text');
    const restored = restoreValues(evaluated, this.#placeholders);
    return isObject(restored) ? restored : evaluated;
  }
}

/**
 * Events of a streamed response (OpenAI Responses API, streaming events). Texts occur three times: in deltas, in the
 * events that complete a part or an item, and in the response at the end. All of them get the text that was written.
 */
interface TextEvents {
  readonly kind: TextKind;
  readonly isJson: boolean;
  /** The member of the `done` event with the whole text. */
  readonly whole: string;
  /** The member that numbers the part within the item; undefined when the item has one text. */
  readonly part?: 'content_index' | 'summary_index';
  /** Of texts that are not those of an item. */
  readonly key?: string;
}

/** By the type of their events without `.delta` or `.done`. */
const textEvents: Readonly<Record<string, TextEvents>> = {
  'response.output_text': { kind: 'text', isJson: false, whole: 'text', part: 'content_index' },
  'response.refusal': { kind: 'refusal', isJson: false, whole: 'refusal', part: 'content_index' },
  'response.reasoning_text': { kind: 'reasoning', isJson: false, whole: 'text', part: 'content_index' },
  'response.reasoning_summary_text': { kind: 'reasoning', isJson: false, whole: 'text', part: 'summary_index' },
  'response.reasoning': { kind: 'reasoning', isJson: false, whole: 'text', part: 'content_index' },
  'response.reasoning_summary': { kind: 'reasoning', isJson: false, whole: 'text', part: 'summary_index' },
  'response.audio.transcript': { kind: 'text', isJson: false, whole: 'transcript' },
  'response.function_call_arguments': { kind: 'tool_arguments', isJson: true, whole: 'arguments' },
  'response.mcp_call_arguments': { kind: 'tool_arguments', isJson: true, whole: 'arguments' },
  'response.custom_tool_call_input': { kind: 'tool_arguments', isJson: false, whole: 'input' },
  'response.code_interpreter_call_code': { kind: 'tool_arguments', isJson: false, whole: 'code' },
};

/** Texts of event types that the gateway does not know. Sounds and images arrive in base64. */
function unknownText(type: string): TextEvents | undefined {
  if (type === 'response.audio.delta') return undefined;
  return { kind: 'text', isJson: false, whole: 'text', part: 'content_index', key: type };
}

const delta = '.delta';
const done = '.done';

interface OpenText {
  readonly type: string;
  /** The members that name the text. */
  readonly names: StreamEvent;
}

class GuardedResponsesEvents implements GuardedEvents {
  readonly #texts: WrittenTexts;
  readonly #placeholders: Placeholders;
  readonly #open = new Map<string, OpenText>();
  readonly #items = new Map<string, unknown>();
  #sequence: number | undefined;

  constructor(phase: TextPhase, placeholders: Placeholders) {
    this.#texts = new WrittenTexts(phase, true);
    this.#placeholders = placeholders;
  }

  get stop(): GuardedEvents['stop'] {
    return this.#texts.stop;
  }

  events(event: StreamEvent): readonly StreamEvent[] {
    if (this.stop !== undefined) return [];
    if (this.#sequence === undefined && typeof event['sequence_number'] === 'number') {
      this.#sequence = event['sequence_number'];
    }
    return this.#written(event).map((one) => this.#numbered(one));
  }

  finish(): readonly StreamEvent[] {
    if (this.stop !== undefined) return [];
    return this.#texts.open.flatMap((channel) => this.#rest(channel)).map((one) => this.#numbered(one));
  }

  #written(event: StreamEvent): readonly StreamEvent[] {
    const type = String(event['type']);
    if (type.endsWith(delta)) {
      const texts = textEvents[type.slice(0, -delta.length)] ?? unknownText(type);
      if (texts !== undefined && typeof event['delta'] === 'string') return this.#delta(event, event['delta'], texts);
    } else if (type.endsWith(done)) {
      const texts = textEvents[type.slice(0, -done.length)];
      if (texts !== undefined) return this.#done(event, texts);
      if (type === 'response.content_part.done') return this.#partDone(event, 'content_index');
      if (type === 'response.reasoning_summary_part.done') return this.#partDone(event, 'summary_index');
      if (type === 'response.output_item.done') return this.#itemDone(event);
    }
    const { response } = event;
    if (type === 'error') return [this.#restored(event)];
    if (isObject(response)) {
      const given: unknown[] = Array.isArray(response['output']) ? response['output'] : [];
      const output = given.map((item, index) => this.#items.get(String(index)) ?? this.#item(item, index));
      const rest = this.#restored({ ...event, response: { ...response, output: [] } });
      const around = isObject(rest['response']) ? rest['response'] : response;
      return this.#unlessStopped({ ...rest, response: { ...around, output } });
    }
    return this.#unlessStopped(this.#restored(this.#texts.separateMembers(event, 'text')));
  }

  #delta(event: StreamEvent, given: string, texts: TextEvents): readonly StreamEvent[] {
    const { type, delta: _, sequence_number: __, logprobs: ___, obfuscation: ____, ...names } = event;
    const channel = channelOf(event, texts);
    if (!this.#open.has(channel.key)) this.#open.set(channel.key, { type: String(type), names });
    const text = this.#texts.push(channel, given, matchingTokens(given, event['logprobs']));
    if (text === '' && given !== '') return [];
    return [{ ...event, delta: text, ...this.#tokens(channel, event['logprobs']) }];
  }

  #done(event: StreamEvent, texts: TextEvents): readonly StreamEvent[] {
    const channel = channelOf(event, texts);
    const rest = this.#rest(channel);
    const given = event[texts.whole];
    const whole = this.#wholeText(channel, given);
    const logprobs = Array.isArray(event['logprobs']) && { logprobs: keptTokens(event['logprobs'], whole, given) };
    return [...rest, ...this.#unlessStopped({ ...event, [texts.whole]: whole, ...logprobs })];
  }

  #partDone(event: StreamEvent, number: 'content_index' | 'summary_index'): readonly StreamEvent[] {
    const { part } = event;
    if (!isObject(part)) return [this.#restored(event)];
    const isSummary = number === 'summary_index';
    return this.#unlessStopped({ ...event, part: this.#part(part, event['output_index'], event[number], isSummary) });
  }

  #itemDone(event: StreamEvent): readonly StreamEvent[] {
    const { item, output_index } = event;
    const written = this.#item(item, output_index);
    this.#items.set(String(output_index), written);
    return this.#unlessStopped({ ...event, item: written });
  }

  /** The item with its texts as they were written; texts that were not streamed are evaluated here. */
  #item(item: unknown, index: unknown): unknown {
    if (!isObject(item)) return item;
    const others = this.#texts.separateMembers(item, 'text', ['content', 'summary', 'arguments', 'input', 'code']);
    const restored = restoreValues(others, this.#placeholders);
    const written: Record<string, unknown> = isObject(restored) ? { ...restored } : { ...item };
    const parts = (list: unknown, isSummary: boolean) =>
      Array.isArray(list)
        ? list.map((part, at) => (isObject(part) ? this.#part(part, index, at, isSummary) : part))
        : list;
    if ('content' in item) written['content'] = parts(item['content'], false);
    if ('summary' in item) written['summary'] = parts(item['summary'], true);
    for (const [member, isJson] of itemTexts) {
      if (typeof item[member] !== 'string') continue;
      const channel: StreamChannel = { key: keyOf(index, undefined, false), kind: 'tool_arguments', isJson };
      written[member] = this.#wholeText(channel, item[member]);
    }
    return written;
  }

  #part(part: StreamEvent, index: unknown, number: unknown, isSummary: boolean): StreamEvent {
    const restored = restoreValues(this.#texts.separateMembers(part, 'text', ['text', 'refusal']), this.#placeholders);
    const written: Record<string, unknown> = isObject(restored) ? { ...restored } : { ...part };
    for (const member of ['text', 'refusal']) {
      if (typeof part[member] !== 'string') continue;
      const isReasoning = isSummary || part['type'] === 'reasoning_text';
      const kind = isReasoning ? 'reasoning' : member === 'refusal' ? 'refusal' : 'text';
      const channel: StreamChannel = { key: keyOf(index, number, isSummary), kind, isJson: false };
      written[member] = this.#wholeText(channel, part[member]);
      if (Array.isArray(part['logprobs'])) {
        written['logprobs'] = keptTokens(part['logprobs'], written[member], part[member]);
      }
    }
    return written;
  }

  /** What was written for the text, which is complete. One that was not streamed is evaluated as one piece. */
  #wholeText(channel: StreamChannel, given: unknown): unknown {
    if (typeof given !== 'string') return given;
    if (this.#texts.whole(channel.key) === undefined) this.#texts.push(channel, given);
    this.#texts.end(channel);
    return this.#texts.whole(channel.key) ?? '';
  }

  /** What is retained of a text, as an event. */
  #rest(channel: StreamChannel): readonly StreamEvent[] {
    const open = this.#open.get(channel.key);
    const text = this.#texts.end(channel);
    if (open === undefined || text === '') return [];
    return [
      {
        type: open.type,
        ...open.names,
        delta: text,
        ...(open.type.startsWith('response.output_text') && { logprobs: this.#texts.tokens(channel) }),
        sequence_number: 0,
      },
    ];
  }

  /** The member of a delta with the log probabilities of what is written. */
  #tokens(channel: StreamChannel, given: unknown): { readonly logprobs?: readonly unknown[] } {
    const entries = this.#texts.tokens(channel);
    return entries.length === 0 && !Array.isArray(given) ? {} : { logprobs: entries };
  }

  #numbered(event: StreamEvent): StreamEvent {
    if (this.#sequence === undefined || event['sequence_number'] === undefined) return event;
    const numbered = { ...event, sequence_number: this.#sequence };
    this.#sequence += 1;
    return numbered;
  }

  #unlessStopped(event: StreamEvent): readonly StreamEvent[] {
    return this.stop === undefined ? [event] : [];
  }

  #restored(event: StreamEvent): StreamEvent {
    const restored = restoreValues(event, this.#placeholders);
    return isObject(restored) ? restored : event;
  }
}

/** Members of items with a text of their own, and whether it is JSON. */
const itemTexts = [
  ['arguments', true],
  ['input', false],
  ['code', false],
] as const;

function channelOf(event: StreamEvent, { kind, isJson, part, key = '' }: TextEvents): StreamChannel {
  const number = part === undefined ? undefined : event[part];
  return { key: `${key}${keyOf(event['output_index'], number, part === 'summary_index')}`, kind, isJson };
}

function keyOf(item: unknown, part: unknown, isSummary: boolean): string {
  return `${item} ${isSummary ? 'summary' : 'content'} ${part ?? ''}`;
}

/** The log probabilities of a text when it was not changed. */
function keptTokens(logprobs: readonly unknown[], written: unknown, given: unknown): readonly unknown[] {
  return typeof given === 'string' && written === given ? matchingTokens(given, logprobs) : [];
}
