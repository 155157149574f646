/**
 * The least that an answer in one piece must contain, for every dialect and forwarded endpoint. An answer without it is
 * the provider's failure, whatever its status: another target is called, or the client gets 502 `bad_provider_answer`.
 * Only what a client cannot do without is checked, so that no answer of a real provider is refused.
 */
import { isObject } from '../../json/is-object.ts';
import type { Dialect } from '../../providers/provider.ts';
import type { ForwardEndpoint } from '../model-request/forward-operations.ts';

export interface ReceivedAnswer {
  /** Undefined when the bytes are not JSON. */
  readonly parsed: unknown;
  readonly bytes: number;
  /** The content type is JSON. */
  readonly isJson: boolean;
  /** How many vectors were requested, of embeddings. */
  readonly vectors?: number | undefined;
}

/** @returns what is missing; undefined for an answer */
type AnswerShape = (answer: ReceivedAnswer) => string | undefined;

export type ExpectedAnswer = Dialect | ForwardEndpoint | '/v1/messages/count_tokens' | 'object' | 'anything';

/** What the answer lacks; undefined when it is one. */
export function missingIn(kind: ExpectedAnswer, answer: ReceivedAnswer): string | undefined {
  return shapes[kind](answer);
}

/** Undefined for an answer in JSON, and for a complete one. */
type JsonShape = (answer: Record<string, unknown>, received: ReceivedAnswer) => string | undefined;

const json =
  (missing: JsonShape): AnswerShape =>
  (received) =>
    isObject(received.parsed) ? missing(received.parsed, received) : 'a JSON object';

/** Forwarded answers may have a form of the provider's own: any member instead of `name`. */
const ownOr = (name: string, missing: JsonShape): AnswerShape =>
  json((answer, received) => {
    if (name in answer) return missing(answer, received);
    return isEmpty(answer) ? `'${name}'` : undefined;
  });

const embeddings = (name: 'data' | 'embeddings', vectorOf: (entry: unknown) => unknown): AnswerShape =>
  json((answer, { vectors }) => {
    const list = answer[name];
    if (!Array.isArray(list) || list.length === 0) return 'embeddings';
    if (vectors !== undefined && list.length !== vectors) return `${vectors} embeddings`;
    let length: number | undefined;
    for (const entry of list) {
      const vector = vectorOf(entry);
      if (!isVector(vector)) return 'a vector in each embedding';
      // Vectors by token differ in their number.
      if (Array.isArray(vector[0])) continue;
      length ??= vector.length;
      if (vector.length !== length) return 'vectors of the same length';
    }
    return undefined;
  });

const images = ownOr('data', ({ data }) => {
  const hasImage = (one: unknown): boolean => isObject(one) && (isText(one.url) || isText(one.b64_json));
  return Array.isArray(data) && data.length > 0 && data.every(hasImage) ? undefined : 'an image';
});

/** A transcript may be plain text, also an empty one, or a JSON string. */
const transcript: AnswerShape = (received) => {
  if (!received.isJson || typeof received.parsed === 'string') return undefined;
  return ownOr('text', ({ text }) => (typeof text === 'string' ? undefined : "'text'"))(received);
};

const shapes: Readonly<Record<ExpectedAnswer, AnswerShape>> = {
  chat: json((answer) => missingChoice(answer, messageOf)),
  ollama_chat: json(({ message }) => (isMessage(message) ? undefined : 'a message')),
  messages: json(({ content }) => (Array.isArray(content) && content.every(hasType) ? undefined : "'content'")),
  responses: json(({ output, status }) => {
    if (Array.isArray(output)) return output.every(hasType) ? undefined : "the items of its 'output'";
    // A response that has not succeeded may have no output.
    return (output ?? null) === null && isText(status) && status !== 'completed' ? undefined : "'output'";
  }),
  embeddings: embeddings('data', (entry) => (isObject(entry) ? entry.embedding : undefined)),
  ollama_embed: embeddings('embeddings', (entry) => entry),
  '/v1/completions': ownOr('choices', (answer) => missingChoice(answer, textOf)),
  '/v1/audio/speech': ({ parsed, bytes, isJson }) => {
    if (!isJson) return bytes > 0 ? undefined : 'audio';
    return isObject(parsed) && !isEmpty(parsed) ? undefined : 'audio';
  },
  '/v1/audio/transcriptions': transcript,
  '/v1/audio/translations': transcript,
  '/v1/images/generations': images,
  '/v1/images/edits': images,
  '/v1/responses/input_tokens': ownOr('input_tokens', (answer) => missingCount(answer)),
  '/v1/responses/compact': ownOr('output', ({ output }) =>
    Array.isArray(output) && output.every(hasType) ? undefined : "'output'",
  ),
  '/v1/messages/count_tokens': json((answer) => missingCount(answer)),
  object: json(({ id }) => (isText(id) ? undefined : "'id'")),
  anything: () => undefined,
};

function missingChoice(
  { choices }: Record<string, unknown>,
  missingIn: (choice: Record<string, unknown>) => string | undefined,
): string | undefined {
  if (!Array.isArray(choices) || choices.length === 0) return 'a choice';
  for (const choice of choices) {
    const missing = isObject(choice) ? missingIn(choice) : 'a choice';
    if (missing !== undefined) return missing;
  }
  return undefined;
}

function messageOf({ message }: Record<string, unknown>): string | undefined {
  return isMessage(message) ? undefined : 'a message in each choice';
}

function textOf({ text }: Record<string, unknown>): string | undefined {
  return typeof text === 'string' ? undefined : 'text in each choice';
}

/** Text, parts, or neither: a message may consist of tool calls, a refusal or audio. */
function isMessage(message: unknown): boolean {
  if (!isObject(message)) return false;
  const content = message.content ?? null;
  const calls = message.tool_calls ?? null;
  return (
    (content === null || typeof content === 'string' || Array.isArray(content)) &&
    (calls === null || (Array.isArray(calls) && calls.every(isObject)))
  );
}

function missingCount({ input_tokens: count }: Record<string, unknown>): string | undefined {
  return typeof count === 'number' && count >= 0 ? undefined : "'input_tokens'";
}

/** Numbers, a text in base64, or the vectors of tokens. */
function isVector(vector: unknown): vector is string | readonly unknown[] {
  if (!Array.isArray(vector)) return isText(vector);
  if (Array.isArray(vector[0])) return vector.every(isVector);
  // A loop, because a vector has thousands of numbers.
  for (let at = 0; at < vector.length; at++) if (typeof vector[at] !== 'number') return false;
  return vector.length > 0;
}

function hasType(one: unknown): boolean {
  return isObject(one) && isText(one.type);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isEmpty(answer: Record<string, unknown>): boolean {
  for (const _ in answer) return false;
  return true;
}
