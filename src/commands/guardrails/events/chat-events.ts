/** Chat completion chunks, and chunks of legacy completions. */
import { isObject } from '../../../json/is-object.ts';
import { restoreValues } from '../body/restore-values.ts';
import type { StreamChannel, TextKind } from '../guarded-text.ts';
import type { TextPhase } from '../phases/text-phase.ts';
import type { Placeholders } from '../placeholders.ts';
import { type GuardedEvents, type StreamEvent, WrittenTexts } from './guarded-events.ts';

/** Members of a delta with text. */
const deltaTexts: Readonly<Record<string, TextKind>> = {
  content: 'text',
  refusal: 'refusal',
  reasoning_content: 'reasoning',
  reasoning: 'reasoning',
};

type Choice = Record<string, unknown>;

export class GuardedChatEvents implements GuardedEvents {
  readonly #texts: WrittenTexts;
  readonly #placeholders: Placeholders;
  /** Of the last chunk: chunks made here repeat its members. */
  #envelope: StreamEvent = {};

  constructor(phase: TextPhase, placeholders: Placeholders) {
    this.#texts = new WrittenTexts(phase, false);
    this.#placeholders = placeholders;
  }

  get stop(): GuardedEvents['stop'] {
    return this.#texts.stop;
  }

  events(chunk: StreamEvent): readonly StreamEvent[] {
    if (this.stop !== undefined) return [];
    const { choices } = chunk;
    if (!Array.isArray(choices) || choices.length === 0) return [chunk];
    const { choices: _, usage: __, ...envelope } = chunk;
    this.#envelope = envelope;
    const written = choices.map((choice) => (isObject(choice) ? this.#choice(choice) : choice));
    const isEmpty = written.every((choice) => choice === undefined) && chunk['usage'] == null;
    return isEmpty ? [] : [{ ...chunk, choices: written.filter((choice) => choice !== undefined) }];
  }

  finish(): readonly StreamEvent[] {
    const choices = Map.groupBy(this.#texts.open, ({ key }) => Number.parseInt(key, 10));
    const written = [...choices.keys()].flatMap((index) => {
      const choice = this.#rest(index);
      return choice === undefined ? [] : [{ index, ...choice, finish_reason: null }];
    });
    return written.length === 0 || this.stop !== undefined ? [] : [{ ...this.#envelope, choices: written }];
  }

  /** Undefined when nothing is left of it. */
  #choice(choice: StreamEvent): Choice | undefined {
    const index = typeof choice['index'] === 'number' ? choice['index'] : 0;
    const isLast = choice['finish_reason'] != null;
    const written: Choice = { ...choice };
    if (choice['logprobs'] != null) written['logprobs'] = null;
    if (typeof choice['text'] === 'string') {
      const channel = channelOf(index, 'text', 'text');
      written['text'] = this.#texts.push(channel, choice['text']) + (isLast ? this.#texts.end(channel) : '');
      return written['text'] === '' && !isLast ? undefined : written;
    }
    if (isObject(choice['delta'])) {
      written['delta'] = this.#delta(choice['delta'], index);
    }
    if (isLast) {
      const rest = this.#rest(index);
      if (rest !== undefined) written['delta'] = merged(written['delta'], rest.delta);
    }
    const isEmpty = isObject(written['delta']) && Object.keys(written['delta']).length === 0;
    const wasEmpty = isObject(choice['delta']) && Object.keys(choice['delta']).length === 0;
    return isEmpty && !wasEmpty && !isLast ? undefined : written;
  }

  #delta(delta: StreamEvent, index: number): StreamEvent {
    const written: Record<string, unknown> = {};
    const isAnswer = hasText(delta['content']) || Array.isArray(delta['tool_calls']);
    for (const name in delta) {
      const value = delta[name];
      const kind = deltaTexts[name];
      if (name === 'tool_calls' && Array.isArray(value)) {
        const calls = value.flatMap((call, at) => this.#toolCall(call, index, at));
        if (calls.length > 0) written[name] = calls;
      } else if (kind === undefined || typeof value !== 'string') {
        written[name] = restoreValues(value, this.#placeholders);
      } else {
        const text = this.#texts.push(channelOf(index, name, kind), value);
        if (text !== '' || value === '') written[name] = text;
      }
    }
    if (!isAnswer) return written;
    // Reasoning precedes the answer: clients show it as ended once the answer begins.
    for (const channel of this.#texts.open) {
      if (channel.kind !== 'reasoning' || Number.parseInt(channel.key, 10) !== index) continue;
      const rest = this.#texts.end(channel);
      const name = channel.key.slice(channel.key.indexOf(' ') + 1);
      if (rest !== '') written[name] = `${written[name] ?? ''}${rest}`;
    }
    return written;
  }

  #toolCall(call: unknown, index: number, at: number): unknown[] {
    if (!isObject(call)) return [call];
    const number = typeof call['index'] === 'number' ? call['index'] : at;
    for (const [member, text, isJson] of callTexts) {
      const of = call[member];
      if (!isObject(of) || typeof of[text] !== 'string') continue;
      const rewritten = this.#texts.push(callChannel(index, number, isJson), of[text]);
      const isOnlyText = call['id'] === undefined && of['name'] === undefined;
      if (rewritten === '' && of[text] !== '' && isOnlyText) return [];
      return [{ ...call, [member]: { ...of, [text]: rewritten } }];
    }
    return [call];
  }

  /** What is retained of a choice, as a delta. */
  #rest(index: number): { readonly delta: StreamEvent } | undefined {
    const delta: Record<string, unknown> = {};
    const calls: unknown[] = [];
    for (const channel of this.#texts.open) {
      const [of, name = '', number] = channel.key.split(' ');
      if (Number(of) !== index) continue;
      const rest = this.#texts.end(channel);
      if (rest === '') continue;
      if (number === undefined) delta[name] = rest;
      else if (name === 'call') calls.push({ index: Number(number), function: { arguments: rest } });
      else calls.push({ index: Number(number), custom: { input: rest } });
    }
    if (calls.length > 0) delta['tool_calls'] = calls;
    return Object.keys(delta).length === 0 ? undefined : { delta };
  }
}

/** Where a call has its text, and whether that is JSON. */
const callTexts = [
  ['function', 'arguments', true],
  ['custom', 'input', false],
] as const;

/** The key begins with the number of the choice. */
function channelOf(index: number, name: string, kind: TextKind): StreamChannel {
  return { key: `${index} ${name}`, kind, isJson: false };
}

function callChannel(index: number, number: number, isJson: boolean): StreamChannel {
  return { key: `${index} ${isJson ? 'call' : 'custom'} ${number}`, kind: 'tool_arguments', isJson };
}

function hasText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/** A delta with the texts and calls of another behind its own. */
function merged(delta: unknown, rest: StreamEvent): StreamEvent {
  const result: Record<string, unknown> = isObject(delta) ? { ...delta } : {};
  for (const name in rest) {
    const own = result[name];
    const more = rest[name];
    if (typeof own === 'string' && typeof more === 'string') result[name] = own + more;
    else if (Array.isArray(own) && Array.isArray(more)) result[name] = [...own, ...more];
    else result[name] = more;
  }
  return result;
}
