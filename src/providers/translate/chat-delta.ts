/** Reads the output of a chat model in the variants that servers send, both in chunks and in whole messages. */
import { isObject } from '../../json/is-object.ts';
import { errorCodeOf } from '../upstream-error.ts';
import type { Logprob, TokenLogprob } from './chat-to-responses/response-object.ts';
import { filled, type JsonObject } from './json.ts';

// The meaning of a chat completion's finish reason, in the variants that servers send.

/** `interrupted`: the answer has ended, but is not whole. */
type ChatAnswerEnd = 'stop' | 'length' | 'content_filter' | 'interrupted';

const ends: ReadonlyMap<string, ChatAnswerEnd> = new Map([
  ['stop', 'stop'],
  ['tool_calls', 'stop'],
  ['function_call', 'stop'],
  ['tool_use', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['safety', 'content_filter'],
  ['refusal', 'content_filter'],
]);

/** An unknown reason is an interruption, like `abort`, `cancelled` and `insufficient_system_resource`. */
export function answerEnd(finishReason: string): ChatAnswerEnd {
  // Gemini appends the cause after a colon.
  const [reason = ''] = finishReason.toLowerCase().split(':', 1);
  return ends.get(reason) ?? 'interrupted';
}

/**
 * The choice of a chat chunk for clients of other dialects: the one with index 0, or without an index. A chunk that has
 * only usage has none.
 */
export function firstChoice(chunk: JsonObject): JsonObject | undefined {
  const choices = chunk['choices'];
  if (!Array.isArray(choices)) return undefined;
  return choices.find((choice) => isObject(choice) && (choice['index'] ?? 0) === 0);
}

interface Said {
  readonly text: string;
  readonly reasoning: string;
}

/** Content is text, or a list of parts, of which some servers mark the thinking ones. */
export function saidIn(delta: JsonObject): Said {
  let reasoning = filled(delta['reasoning_content']) ?? filled(delta['reasoning']) ?? '';
  const content = delta['content'];
  if (!Array.isArray(content)) return { text: filled(content) ?? '', reasoning };
  let text = '';
  for (const part of content) {
    if (!isObject(part)) continue;
    if (part['type'] === 'thinking') reasoning += thinkingText(part['thinking']);
    else text += filled(part['text']) ?? '';
  }
  return { text, reasoning };
}

function thinkingText(thinking: unknown): string {
  if (!Array.isArray(thinking)) return filled(thinking) ?? '';
  return thinking.map((part) => (isObject(part) ? (filled(part['text']) ?? '') : '')).join('');
}

const none: readonly Logprob[] = [];

export function logprobsIn(choice: JsonObject): readonly Logprob[] {
  const logprobs = choice['logprobs'];
  if (!isObject(logprobs) || !Array.isArray(logprobs['content'])) return none;
  return logprobs['content'].filter(isObject).map((entry) => {
    const top = Array.isArray(entry['top_logprobs']) ? entry['top_logprobs'] : [];
    return { ...tokenLogprob(entry), top_logprobs: top.filter(isObject).map(tokenLogprob) };
  });
}

function tokenLogprob({ token, logprob, bytes }: JsonObject): TokenLogprob {
  return {
    token: typeof token === 'string' ? token : '',
    logprob: typeof logprob === 'number' ? logprob : 0,
    bytes: Array.isArray(bytes) ? bytes : [],
  };
}

/** Members without which strict clients refuse the whole response with the annotation. */
const annotationMembers: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['url_citation', ['url', 'title', 'start_index', 'end_index']],
  ['file_citation', ['file_id', 'filename', 'index']],
  ['container_file_citation', ['container_id', 'file_id', 'filename', 'start_index', 'end_index']],
  ['file_path', ['file_id', 'index']],
]);

/** Annotations in the flat form of the Responses API; one without a member that clients require is left out. */
export function annotationsIn(delta: JsonObject): readonly JsonObject[] {
  const annotations = delta['annotations'];
  if (!Array.isArray(annotations)) return [];
  return annotations.filter(isObject).flatMap((annotation) => {
    const type = annotation['type'];
    const members = annotationMembers.get(type);
    if (members === undefined || typeof type !== 'string') return [];
    const { [type]: nested, ...flat } = annotation;
    const whole = isObject(nested) ? { type, ...nested } : flat;
    return members.every((member) => whole[member] !== undefined && whole[member] !== null) ? [whole] : [];
  });
}

export interface CallDelta {
  readonly index: number | undefined;
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly arguments: string;
  readonly extra: unknown;
}

const noCalls: readonly CallDelta[] = [];

export function callsIn(delta: JsonObject): readonly CallDelta[] {
  const calls = delta['tool_calls'];
  if (Array.isArray(calls)) return calls.filter(isObject).map(callDelta);
  const legacy = delta['function_call'];
  return isObject(legacy) ? [callDelta({ index: 0, function: legacy })] : noCalls;
}

function callDelta(call: JsonObject): CallDelta {
  const called = isObject(call['function']) ? call['function'] : {};
  const args = called['arguments'];
  return {
    index: typeof call['index'] === 'number' ? call['index'] : undefined,
    id: filled(call['id']),
    name: filled(called['name']),
    arguments: isObject(args) ? JSON.stringify(args) : (filled(args) ?? ''),
    extra: call['extra_content'] ?? undefined,
  };
}

export interface ChatError {
  readonly code: string;
  readonly message: string;
}

/** The error in a failed chunk or body, with the codes that clients act on. */
export function errorIn(chunk: JsonObject): ChatError | undefined {
  const error = chunk['error'];
  if (error === undefined || error === null || error === false || error === '') return undefined;
  if (!isObject(error)) return { code: 'provider_error', message: String(error) };
  const { code, type } = error;
  const message = filled(error['message']) ?? filled(error['error']) ?? silent;
  if (code === 429 || code === '429') return { code: 'rate_limit_exceeded', message };
  const errorCode = errorCodeOf(error);
  if (errorCode !== undefined && !/^\d+$/.test(errorCode)) return { code: errorCode, message };
  return { code: type === 'rate_limit_error' ? 'rate_limit_exceeded' : 'provider_error', message };
}

const silent = 'The provider reported an error without a message.';
