import { z } from 'zod';
import { isObject } from '../../json/is-object.ts';
import type { JsonObject, Refused } from '../../providers/translate/json.ts';
import { type Accepted, checkRequest } from '../request-check.ts';

const content = z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]);

/** Body of `POST /v1/messages/count_tokens`: the members that the gateway reads. */
export const countTokensRequestSchema = z.looseObject({
  model: z.string().min(1),
  messages: z.array(z.looseObject({ role: z.string(), content: content.nullish() })).min(1),
  system: content.nullish(),
  tools: z.array(z.looseObject({})).nullish(),
});

/** Body of `POST /v1/messages`: the members that the gateway reads. */
export const messagesRequestSchema = z.looseObject({
  ...countTokensRequestSchema.shape,
  max_tokens: z.int().min(0),
  stream: z.boolean().nullish(),
  stop_sequences: z.array(z.string()).nullish(),
  tool_choice: z.looseObject({}).nullish(),
  thinking: z.looseObject({}).nullish(),
  metadata: z.looseObject({}).nullish(),
  output_config: z.looseObject({}).nullish(),
});

type MessagesRequest = z.infer<typeof messagesRequestSchema>;
type CountTokensRequest = z.infer<typeof countTokensRequestSchema>;

export function parseMessagesRequest(json: unknown): Accepted<MessagesRequest> | Refused {
  return checkRequest(messagesRequestSchema, json, ['model', 'max_tokens', 'messages']);
}

export function parseCountTokensRequest(json: unknown): Accepted<CountTokensRequest> | Refused {
  return checkRequest(countTokensRequestSchema, json, ['model', 'messages']);
}

/** The id of a message of the Messages API that the gateway itself generates. */
export function messageIdOf(exchangeId: string): string {
  return `msg_${exchangeId.replaceAll('-', '')}`;
}

/**
 * Estimates the tokens of a Messages request where no provider can count them. Tokenizers differ, and this is not
 * one: every started group of eight letters of a word counts as one token, three digits as one, a sign as one, a
 * character of a script without spaces as one.
 */
const FOR_A_MESSAGE = 3;
const FOR_A_TOOL = 8;
const FOR_AN_IMAGE = 1500;
/** A PDF has about this many bytes per page, and costs about this many tokens per page. */
const PAGE_BYTES = 50_000;
const FOR_A_PAGE = 2000;

const PIECES =
  /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Script=Thai}|\p{Lu}?[\p{Ll}\p{M}]+|[\p{L}\p{M}]+|\p{N}{1,3}|[^\s\p{L}\p{M}\p{N}]|\n+/gu;
const LETTERS = 8;

export function estimateInputTokens({ system, messages, tools }: JsonObject): number {
  let tokens = FOR_A_MESSAGE + tokensOf(system);
  for (const { content } of objectsIn(messages)) tokens += FOR_A_MESSAGE + tokensOf(content);
  for (const { name, description, input_schema } of objectsIn(tools)) {
    tokens += FOR_A_TOOL + tokensOf(name) + tokensOf(description) + tokensOf(JSON.stringify(input_schema));
  }
  return tokens;
}

function objectsIn(list: unknown): readonly JsonObject[] {
  return Array.isArray(list) ? list.filter(isObject) : [];
}

/** Tokens of text, of a content block, or of a list of them. */
function tokensOf(content: unknown): number {
  if (typeof content === 'string') return tokensInText(content);
  if (Array.isArray(content)) return content.reduce<number>((sum, block) => sum + tokensOf(block), 0);
  if (!isObject(content)) return 0;
  const { type, text, thinking, title, context, name, input, content: inner, source } = content;
  switch (type) {
    case 'image':
      return FOR_AN_IMAGE;
    case 'document':
      return tokensOf(title) + tokensOf(context) + tokensOfSource(source);
    case 'tool_use':
      return FOR_A_TOOL + tokensOf(name) + tokensOf(JSON.stringify(input ?? {}));
    default:
      return tokensOf(title) + tokensOf(text) + tokensOf(thinking) + tokensOf(inner);
  }
}

function tokensOfSource(source: unknown): number {
  if (!isObject(source)) return 0;
  const { type, data, content } = source;
  if (type === 'text') return tokensOf(data);
  if (type === 'content') return tokensOf(content);
  const bytes = typeof data === 'string' ? (data.length * 3) / 4 : 0;
  return FOR_A_PAGE * Math.max(1, Math.ceil(bytes / PAGE_BYTES));
}

function tokensInText(text: string): number {
  let tokens = 0;
  for (const [piece] of text.matchAll(PIECES)) tokens += Math.ceil(piece.length / LETTERS);
  return tokens;
}
