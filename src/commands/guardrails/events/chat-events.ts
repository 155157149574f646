/** Chat completion chunks, and chunks of legacy completions. */
import { isObject } from '../../../json/is-object.ts';
import { isSetting } from '../body/body-texts.ts';
import { restoreValues } from '../body/restore-values.ts';
import type { StreamChannel, TextKind } from '../guardrail-type.ts';
import type { TextPhase } from '../phases/guardrail-step.ts';
import type { Placeholders } from '../placeholders.ts';
import { type GuardedEvents, matchingTokens, type StreamEvent, WrittenTexts } from './guarded-events.ts';

/** Members of a delta with text. */
const deltaTexts: Readonly<Record<string, TextKind>> = {
  content: 'text',
  refusal: 'refusal',
  reasoning_content: 'reasoning',
  reasoning: 'reasoning',
};

/** Members of a delta that hold an object with a text. */
const nestedTexts: Readonly<
  Record<string, { readonly member: string; readonly kind: TextKind; readonly isJson: boolean }>
> = {
  function_call: { member: 'arguments', kind: 'tool_arguments', isJson: true },
  audio: { member: 'transcript', kind: 'text', isJson: false },
};

/** Members that are read on their own. */
const beside = { choices: ['choices', 'usage'], texts: ['delta', 'text'], call: ['function', 'custom'] };

type Choice = StreamEvent;

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
    const others = this.#texts.separateMembers(chunk, 'text', beside.choices);
    if (!Array.isArray(choices) || choices.length === 0) return [others];
    const { choices: _, usage: __, ...envelope } = chunk;
    this.#envelope = 'usage' in chunk ? { ...envelope, usage: null } : envelope;
    const before: unknown[] = [];
    const written: unknown[] = [];
    for (const choice of choices) {
      if (!isObject(choice)) written.push(this.#texts.separate(choice, 'text'));
      else this.#choice(choice, before, written);
    }
    const isEmpty = written.length === 0 && chunk['usage'] == null;
    return [
      ...(before.length === 0 ? [] : [{ ...this.#envelope, choices: before }]),
      ...(isEmpty ? [] : [{ ...others, choices: written }]),
    ];
  }

  finish(): readonly StreamEvent[] {
    const choices = Map.groupBy(this.#texts.open, ({ key }) => indexIn(key));
    const rests = [...choices].flatMap(([index, channels]) => this.#rest(index, channels, {}));
    return rests.length === 0 || this.stop !== undefined ? [] : [{ ...this.#envelope, choices: rests }];
  }

  /**
   * @param before gets what was retained of texts that end here: it is sent in a chunk of its own, as providers do
   * @param written gets the choice, unless all of it is retained
   */
  #choice(choice: StreamEvent, before: unknown[], written: unknown[]): void {
    const index = typeof choice['index'] === 'number' ? choice['index'] : 0;
    const isLast = choice['finish_reason'] != null;
    const members = this.#texts.separateMembers(choice, 'text', beside.texts);
    const own = typeof choice['text'] === 'string' ? this.#text(members, index) : this.#message(members, index, before);
    if (!isLast) {
      if (own.hasContent) written.push(own.choice);
      return;
    }
    const channels = this.#texts.open.filter(({ key }) => indexIn(key) === index);
    const rest = this.#rest(index, channels, own.choice);
    before.push(...rest);
    const empty = typeof choice['text'] === 'string' ? { text: '' } : { delta: {} };
    const { logprobs } = choice;
    written.push(
      rest.length === 0 ? own.choice : { ...own.choice, ...empty, ...(logprobs != null && { logprobs: null }) },
    );
  }

  /** A choice of legacy completions. */
  #text(choice: StreamEvent, index: number): WrittenChoice {
    const channel = channelOf(index, 'text', 'text');
    const given = String(choice['text']);
    const tokens = isObject(choice['logprobs']) ? legacyTokens(given, choice['logprobs']) : [];
    const text = this.#texts.push(channel, given, tokens);
    const logprobs = mergedTokens(this.#texts.tokens(channel));
    return { choice: withLogprobs({ ...choice, text }, choice['logprobs'], logprobs), hasContent: text !== '' };
  }

  #message(choice: StreamEvent, index: number, before: unknown[]): WrittenChoice {
    const { delta, logprobs } = choice;
    if (!isObject(delta)) return { choice, hasContent: true };
    const given = isObject(logprobs) ? logprobs : {};
    const ended = this.#endedBy(delta, index);
    before.push(...this.#rest(index, ended, {}));
    const written = this.#delta(delta, index, given);
    const hasContent = Object.keys(written).length > 0 || Object.keys(delta).length === 0;
    return { choice: withLogprobs({ ...choice, delta: written }, logprobs, this.#logprobs(index)), hasContent };
  }

  /**
   * The texts that end where this delta begins. Reasoning precedes the answer, and the answer its calls: clients show a
   * text as complete, or parse it, once the next one begins.
   */
  #endedBy(delta: StreamEvent, index: number): readonly StreamChannel[] {
    const calls = Array.isArray(delta['tool_calls']) ? delta['tool_calls'].filter(isObject) : [];
    const isAnswer = hasText(delta['content']) || calls.length > 0;
    if (!isAnswer) return [];
    const callNumbers = new Set(calls.map((call, at) => (typeof call['index'] === 'number' ? call['index'] : at)));
    return this.#texts.open.filter(({ key, kind, isJson }) => {
      const [of, name = '', number] = key.split(' ');
      if (Number(of) !== index || name in delta) return false;
      if (number === undefined) return kind === 'reasoning' || calls.length > 0;
      // Arguments that are JSON are written up to their end.
      return !isJson && calls.length > 0 && !callNumbers.has(Number(number));
    });
  }

  #delta(delta: StreamEvent, index: number, logprobs: StreamEvent): StreamEvent {
    const written: Record<string, unknown> = {};
    for (const name in delta) {
      // It repeats reasoning in pieces of its own.
      if (name === 'extra_content') continue;
      const value = delta[name];
      const kind = deltaTexts[name];
      const nested = nestedTexts[name];
      if (nested !== undefined && isObject(value) && typeof value[nested.member] === 'string') {
        const { member, isJson } = nested;
        const text = this.#texts.push({ key: `${index} ${name}`, kind: nested.kind, isJson }, String(value[member]));
        written[name] = { ...value, [member]: text };
      } else if (name === 'tool_calls' && Array.isArray(value)) {
        const calls = value.flatMap((call, at) => this.#toolCall(call, index, at));
        if (calls.length > 0) written[name] = calls;
      } else if (kind === undefined || typeof value !== 'string') {
        const evaluated = isSetting(name) ? value : this.#texts.separate(value, kind ?? 'text');
        written[name] = restoreValues(evaluated, this.#placeholders);
      } else {
        const text = this.#texts.push(channelOf(index, name, kind), value, matchingTokens(value, logprobs[name]));
        if (text !== '' || value === '') written[name] = text;
      }
    }
    return written;
  }

  /** The log probabilities of the texts that were written for a choice. Null: none. */
  #logprobs(index: number): StreamEvent | null {
    const [content, refusal] = ['content', 'refusal'].map((name) => {
      const tokens = this.#texts.tokens({ key: `${index} ${name}` });
      return tokens.length === 0 ? null : tokens;
    });
    return content == null && refusal == null ? null : { content, refusal };
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
      return [{ ...this.#otherMembers(call), [member]: { ...of, [text]: rewritten } }];
    }
    return [this.#otherMembers(call)];
  }

  #otherMembers(call: StreamEvent): StreamEvent {
    return this.#texts.separateMembers(call, 'text', beside.call);
  }

  /**
   * What is retained of texts of a choice that end, as a choice.
   * @param own the choice whose texts are sent with it
   */
  #rest(index: number, channels: readonly StreamChannel[], own: StreamEvent): readonly StreamEvent[] {
    const delta: Record<string, unknown> = {};
    const calls: unknown[] = [];
    let text: string | undefined;
    for (const channel of channels) {
      const [, name = '', number] = channel.key.split(' ');
      const rest = this.#texts.end(channel);
      if (rest === '') continue;
      const nested = nestedTexts[name];
      if (name === 'text') text = rest;
      else if (nested !== undefined) delta[name] = { [nested.member]: rest };
      else if (number === undefined) delta[name] = rest;
      else if (name === 'call') calls.push({ index: Number(number), function: { arguments: rest } });
      else calls.push({ index: Number(number), custom: { input: rest } });
    }
    if (calls.length > 0) delta['tool_calls'] = calls;
    if (text !== undefined) {
      const logprobs = mergedTokens([own['logprobs'], ...this.#texts.tokens(channelOf(index, 'text', 'text'))]);
      return [{ index, text: `${own['text'] ?? ''}${text}`, logprobs, finish_reason: null }];
    }
    if (Object.keys(delta).length === 0) return [];
    const logprobs = joinedLogprobs(own['logprobs'], this.#logprobs(index));
    return [{ index, delta: merged(own['delta'], delta), logprobs, finish_reason: null }];
  }
}

interface WrittenChoice {
  readonly choice: Choice;
  readonly hasContent: boolean;
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

function indexIn(key: string): number {
  return Number.parseInt(key, 10);
}

/** @param given the member of the provider: without log probabilities it stays as it is */
function withLogprobs(choice: StreamEvent, given: unknown, written: StreamEvent | null): StreamEvent {
  if (written === null && (given == null || !hasTokens(given))) return choice;
  return { ...choice, logprobs: written };
}

function hasTokens(logprobs: unknown): boolean {
  return isObject(logprobs) && Object.values(logprobs).some((list) => Array.isArray(list) && list.length > 0);
}

/** Members of a choice with log probabilities, joined. */
function joinedLogprobs(first: unknown, second: StreamEvent | null): unknown {
  if (!isObject(first) || second === null) return second ?? first ?? null;
  const join = (name: string) => {
    const lists = [first[name], second[name]].filter(Array.isArray);
    return lists.length === 0 ? null : lists.flat();
  };
  return { content: join('content'), refusal: join('refusal') };
}

/** Log probabilities of legacy completions are lists beside each other: they stay one entry. */
function legacyTokens(text: string, logprobs: StreamEvent): readonly unknown[] {
  const { tokens } = logprobs;
  return Array.isArray(tokens) && tokens.length > 0 && tokens.join('') === text ? [logprobs] : [];
}

function mergedTokens(entries: readonly unknown[]): StreamEvent | null {
  const [first, ...more] = entries.filter(isObject);
  if (first === undefined) return null;
  return more.reduce<StreamEvent>((into, entry) => merged(into, entry), first);
}
