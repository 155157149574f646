/** Adapters of chat completions to a provider's own API, and what they share. */

import { isObject } from '../../json/is-object.ts';
import type { Dialect } from '../provider.ts';
import { filled, type JsonObject, type Refused, refuse } from './json.ts';
import { mergedExtra } from './responses-to-chat/reasoning.ts';

export interface ChatAdapter {
  /** The provider's dialect. */
  readonly dialect: Dialect;
  /** A chat completion request in the provider's dialect. Pure: the same request gives the same bytes. */
  request(chat: JsonObject, facts: ChatRequestFacts): { readonly ok: true; readonly body: JsonObject } | Refused;
  /** A new reader for one answer, whole or streamed. */
  reader(facts: ChatAnswerFacts): ChatReader;
}

export interface ChatRequestFacts {
  /** The provider's own id of the model. */
  readonly model: string;
  readonly stream: boolean;
  /** The provider's settings by option name, as configured. */
  readonly options: Readonly<Record<string, string>>;
}

export interface ChatAnswerFacts {
  /** The provider's own id of the model, for an answer that contains none. */
  readonly model: string;
  /** Unix seconds: `created` of the completion. */
  readonly createdAt: number;
  /** `chatcmpl-…`, for a provider whose answers have no id. */
  readonly id: string;
}

/** Reads one answer of a provider as chat completions. It holds the state of that answer. */
export interface ChatReader {
  /**
   * The whole answer, parsed, as a `chat.completion` object. An error body, or an object that is no answer, is returned
   * unchanged: the caller distinguishes the two.
   */
  whole(answer: unknown): unknown;
  /**
   * The data of one event of the stream, as `chat.completion.chunk` objects. An error from the provider is one object
   * with an `error` member, in the form of OpenAI's error body. Undefined when the data is not a JSON object, so that a
   * part of the answer is missing. @param call which of parallel calls sent it
   */
  chunks(data: string, call?: string): readonly JsonObject[] | undefined;
  /** For an event without data: the last chunks when one of parallel calls has ended; `cut` when its answer is not whole. */
  endOfCall?(call: string | undefined): readonly JsonObject[] | 'cut';
  /** Whether the provider has sent its final event, so that the answer is whole. */
  readonly ended: boolean;
  /** The provider's id of the answer; undefined until it is read, and when there is none. */
  readonly answerId: string | undefined;
  /** Usage that the provider has reported so far, before a chunk contains it. Absent where it is reported at the end. */
  readonly counted?: JsonObject | null;
  /** Of parallel calls: the usage that each has reported so far, of which `counted` is the sum. */
  readonly reports?: readonly { readonly usage: JsonObject | null; readonly isFinal: boolean }[];
}

// Combines a stream of chat completion chunks into one completion. Readers of other dialects read a whole answer as a
// stream with a single step, so the results cannot differ.

interface Call {
  readonly members: Record<string, unknown>;
  name: string;
  arguments: string;
}

/** The first choice of the chunks; undefined when there are none, or for an error. */
export function completionOf(chunks: readonly JsonObject[]): JsonObject | undefined {
  let root: JsonObject = {};
  let content = '';
  let reasoning = '';
  let finishReason: unknown = null;
  let usage: unknown;
  const logprobs: unknown[] = [];
  const annotations: unknown[] = [];
  const message: Record<string, unknown> = {};
  const beside: Record<string, unknown> = {};
  const calls: Call[] = [];
  let extra: JsonObject | undefined;
  let hasChoice = false;

  for (const chunk of chunks) {
    const { choices, usage: counted, object: _object, ...members } = chunk;
    if ('error' in members || !Array.isArray(choices)) return undefined;
    root = { ...root, ...members };
    if (isObject(counted)) usage = counted;
    const choice: unknown = choices[0];
    if (!isObject(choice)) continue;
    hasChoice = true;
    const { index: _index, delta, finish_reason, logprobs: probabilities, ...more } = choice;
    Object.assign(beside, more);
    finishReason = finish_reason ?? finishReason;
    if (isObject(probabilities) && Array.isArray(probabilities['content'])) logprobs.push(...probabilities['content']);
    if (!isObject(delta)) continue;
    const {
      role: _role,
      content: text,
      reasoning_content: thought,
      tool_calls,
      annotations: cited,
      extra_content,
      ...rest
    } = delta;
    if (typeof text === 'string') content += text;
    if (typeof thought === 'string') reasoning += thought;
    Object.assign(message, rest);
    if (isObject(extra_content)) extra = mergedExtra(extra, extra_content);
    if (Array.isArray(cited)) annotations.push(...cited);
    if (Array.isArray(tool_calls)) for (const call of tool_calls.filter(isObject)) addCall(calls, call);
  }
  if (!hasChoice) return undefined;
  return {
    ...root,
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: content === '' && calls.length > 0 ? null : content,
          refusal: null,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(calls.length === 0 ? {} : { tool_calls: calls.map(wholeCall) }),
          ...(annotations.length === 0 ? {} : { annotations }),
          ...(extra === undefined ? {} : { extra_content: extra }),
          ...message,
        },
        logprobs: logprobs.length === 0 ? null : { content: logprobs, refusal: null },
        finish_reason: finishReason,
        ...beside,
      },
    ],
    ...(usage === undefined ? {} : { usage }),
  };
}

function addCall(calls: Call[], { index, function: called, ...members }: JsonObject): void {
  const at = typeof index === 'number' ? index : calls.length;
  const call = calls[at] ?? { members: {}, name: '', arguments: '' };
  calls[at] = call;
  Object.assign(call.members, members);
  if (!isObject(called)) return;
  if (typeof called['name'] === 'string') call.name += called['name'];
  if (typeof called['arguments'] === 'string') call.arguments += called['arguments'];
}

function wholeCall({ members, name, arguments: args }: Call): JsonObject {
  return { ...members, function: { name, arguments: args } };
}

// Members of a chat completion request that some dialects lack. A value without effect (the default, or an empty one)
// is accepted; any other is refused, since the answer would not match the request. With `strict_parameters: false` the
// provider's operator has members ignored that only change how the model selects tokens (`sampling`).

const oneAnswer = (value: unknown): boolean => value === 1;
const zero = (value: unknown): boolean => value === 0;
const off = (value: unknown): boolean => value === false;
const never = (): boolean => false;
const noEntries = (value: unknown): boolean =>
  (Array.isArray(value) && value.length === 0) || (isObject(value) && Object.keys(value).length === 0);
const textOnly = (value: unknown): boolean => Array.isArray(value) && value.every((entry) => entry === 'text');

/** Whether a value of the member has no effect. `null` never has one and is not checked here. */
const harmless = {
  audio: never,
  frequency_penalty: zero,
  function_call: never,
  functions: noEntries,
  logit_bias: noEntries,
  logprobs: off,
  modalities: textOnly,
  moderation: never,
  n: oneAnswer,
  parallel_tool_calls: (value: unknown) => value === true,
  prediction: never,
  presence_penalty: zero,
  seed: never,
  service_tier: (value: unknown) => value === 'auto' || value === 'default',
  top_logprobs: zero,
  verbosity: (value: unknown) => value === 'medium',
  web_search_options: never,
} as const satisfies Record<string, (value: unknown) => boolean>;

export type UnhonouredMember = keyof typeof harmless;

/** An answer without them is still an answer to the request. */
const sampling: ReadonlySet<UnhonouredMember> = new Set([
  'frequency_penalty',
  'logit_bias',
  'presence_penalty',
  'seed',
]);

/**
 * @param language name of the provider's dialect, for the message
 * @param options of the provider
 */
export function refusedMember(
  chat: JsonObject,
  members: readonly UnhonouredMember[],
  language: string,
  options: Readonly<Record<string, string>>,
): Refused | undefined {
  const isLenient = /^(?:false|no|off|0)$/i.test(options['strictParameters'] ?? '');
  for (const member of members) {
    const value = chat[member];
    if (value === undefined || value === null || harmless[member](value)) continue;
    if (isLenient && sampling.has(member)) continue;
    const message = `'${member}' cannot be honoured: ${language} has no such setting.`;
    return refuse('unsupported_parameter', member, message);
  }
  return undefined;
}

/** Hints to OpenAI's own service, which do not change the answer. */
const withoutEffect: ReadonlySet<string> = new Set([
  'client_metadata',
  'metadata',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'provider',
  'safety_identifier',
  'store',
  'stream_options',
  'user',
]);

/**
 * The members that are sent unchanged: all with a value, except those that the translator handles and those without
 * effect.
 */
export function unknownMembers(chat: JsonObject, handled: ReadonlySet<string>): JsonObject {
  return Object.fromEntries(
    Object.entries(chat).filter(
      ([member, value]) => value !== null && !handled.has(member) && !withoutEffect.has(member),
    ),
  );
}

// Reads the answers of parallel calls (see parallel-calls.ts) as one completion with a choice for each.

interface ParallelCall {
  readonly reader: ChatReader;
  usage: JsonObject | undefined;
  /** Its choice has a finish reason. */
  isFinished: boolean;
  /** Nothing of it follows. */
  hasEnded: boolean;
}

export class ParallelReader implements ChatReader {
  readonly #id: string;
  readonly #calls: readonly ParallelCall[];
  /** The members of the last chunk, for the one with the usage. */
  #last: JsonObject = {};

  /** @param readerOf a new reader of the provider's dialect */
  constructor(facts: ChatAnswerFacts, calls: number, readerOf: (facts: ChatAnswerFacts) => ChatReader) {
    this.#id = facts.id;
    this.#calls = Array.from({ length: calls }, (_, index) => ({
      // Readers derive ids of tool calls from it.
      reader: readerOf({ ...facts, id: `${facts.id}-${index}` }),
      usage: undefined,
      isFinished: false,
      hasEnded: false,
    }));
  }

  whole(answer: unknown): unknown {
    const given: unknown[] = isObject(answer) && Array.isArray(answer['calls']) ? answer['calls'] : [];
    if (given.length !== this.#calls.length) return answer;
    const completions: JsonObject[] = [];
    const choices: JsonObject[] = [];
    for (const [index, call] of this.#calls.entries()) {
      const completion = call.reader.whole(given[index]);
      if (!isObject(completion) || !Array.isArray(completion['choices'])) continue;
      completions.push(completion);
      choices.push(...withIndex(completion['choices'], index));
      if (isObject(completion['usage'])) call.usage = completion['usage'];
    }
    const isWhole = choices.length === given.length;
    const usage = this.reports.every(({ isFinal }) => isFinal) ? this.counted : undefined;
    return isWhole ? { ...completions[0], id: this.#id, choices, usage } : { usage };
  }

  chunks(data: string, of = ''): readonly JsonObject[] | undefined {
    const index = Number.parseInt(of, 10);
    const call = this.#calls[index];
    const chunks = call?.reader.chunks(data);
    if (call === undefined || chunks === undefined) return undefined;
    const written: JsonObject[] = [];
    for (const { usage, ...chunk } of chunks) {
      if (isObject(usage)) call.usage = usage;
      if (!Array.isArray(chunk['choices'])) return [chunk];
      const choices = withIndex(chunk['choices'], index);
      call.isFinished ||= choices.some((choice) => filled(choice['finish_reason']) !== undefined);
      if (choices.length > 0) written.push({ ...chunk, id: this.#id, choices });
      this.#last = chunk;
    }
    return call.reader.ended ? [...written, ...this.#end(call)] : written;
  }

  endOfCall(of = ''): readonly JsonObject[] | 'cut' {
    if (!of.endsWith(' ended')) return [];
    const call = this.#calls[Number.parseInt(of, 10)];
    return call?.isFinished ? this.#end(call) : 'cut';
  }

  get ended(): boolean {
    return this.#calls.every(({ hasEnded }) => hasEnded);
  }

  get answerId(): string | undefined {
    return this.#calls[0]?.reader.answerId;
  }

  get reports(): readonly { readonly usage: JsonObject | null; readonly isFinal: boolean }[] {
    return this.#calls.map(({ usage, reader }) => ({
      usage: usage ?? reader.counted ?? null,
      isFinal: usage !== undefined,
    }));
  }

  get counted(): JsonObject | null {
    const reports = this.reports.map(({ usage }) => usage).filter((usage) => usage !== null);
    return reports.length === 0 ? null : reports.reduce(sumOf);
  }

  /** The chunk with the usage of all calls, after the last of them. */
  #end(call: ParallelCall): JsonObject[] {
    if (call.hasEnded) return [];
    call.hasEnded = true;
    if (!this.ended || !this.reports.every(({ isFinal }) => isFinal)) return [];
    return [{ ...this.#last, id: this.#id, choices: [], usage: this.counted }];
  }
}

function withIndex(choices: unknown, index: number): JsonObject[] {
  return Array.isArray(choices) ? choices.filter(isObject).map((choice) => ({ ...choice, index })) : [];
}

/** A count that is null in one report is not known for all. */
function sumOf(one: JsonObject, other: JsonObject): JsonObject {
  const sum: Record<string, unknown> = { ...other };
  for (const [name, value] of Object.entries(one)) {
    const added = other[name];
    if (added === undefined) sum[name] = value;
    else if (typeof value === 'number' && typeof added === 'number') sum[name] = value + added;
    else sum[name] = isObject(value) && isObject(added) ? sumOf(value, added) : null;
  }
  return sum;
}
