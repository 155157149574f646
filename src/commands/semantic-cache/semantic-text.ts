/**
 * What a semantic search compares of a request: the last text of the user. Everything else of its body is the rest,
 * which must be equal before texts are compared at all.
 */
import { isObject } from '../../json/is-object.ts';

/** The dialects whose requests can be searched. Requests for embeddings never are. */
export type SemanticDialect = 'chat' | 'responses' | 'messages';

export interface SemanticTextOptions {
  /** Messages of the user and of the model. A longer conversation is not searched. */
  readonly maxMessages: number;
  /** Whether requests with different system prompts share their answers. */
  readonly excludeSystemPrompt: boolean;
}

export interface SemanticText {
  /** The text to embed. */
  readonly text: string;
  /** The body with null in place of each text to embed, and without the system prompt where it is excluded. */
  readonly rest: Readonly<Record<string, unknown>>;
}

/** UTF-16 units: below what models for embeddings accept. Longer texts hardly ever repeat. */
export const MAX_TEXT_LENGTH = 16_384;

type Json = Readonly<Record<string, unknown>>;

/** The member with the messages, the members with a system prompt, and the types of parts that are plain text. */
const shapes = {
  chat: { messages: 'messages', system: [], textTypes: ['text'] },
  messages: { messages: 'messages', system: ['system'], textTypes: ['text'] },
  // An answer repeats its instructions.
  responses: { messages: 'input', system: [], textTypes: ['input_text', 'output_text', 'text'] },
} as const;

type Shape = (typeof shapes)[SemanticDialect];

/** Roles whose messages are the system prompt. */
const systemRoles: readonly unknown[] = ['system', 'developer'];

/** Members by which the answer depends on more than the body. */
const continuations = ['previous_response_id', 'conversation'] as const;

/**
 * @returns undefined for a request that must not be searched: with content other than texts, with calls or results of
 * tools, of a longer conversation, one that continues a stored conversation, or without a last text of the user
 */
export function semanticText(
  dialect: SemanticDialect,
  body: Json,
  { maxMessages, excludeSystemPrompt }: SemanticTextOptions,
): SemanticText | undefined {
  if (continuations.some((member) => body[member] !== undefined && body[member] !== null)) return undefined;
  const shape: Shape = shapes[dialect];
  const given = body[shape.messages];
  const rest: Record<string, unknown> = { ...body };
  if (excludeSystemPrompt) for (const member of shape.system) delete rest[member];
  if (typeof given === 'string') {
    if (dialect !== 'responses' || maxMessages < 1) return undefined;
    return searched(given, { ...rest, [shape.messages]: null });
  }
  if (!Array.isArray(given)) return undefined;
  const messages: unknown[] = excludeSystemPrompt ? given.filter((message) => !isSystem(message)) : given;
  const last = messages.findLastIndex((message) => !isSystem(message));
  if (messages.filter((message) => !isSystem(message)).length > maxMessages) return undefined;
  if (!messages.every((message) => isPlain(message, shape))) return undefined;
  const question: unknown = messages[last];
  if (!isObject(question) || question['role'] !== 'user') return undefined;
  const { content } = question;
  const blank = { ...question, content: blankOf(content) };
  return searched(textIn(content), { ...rest, [shape.messages]: messages.with(last, blank) });
}

function searched(text: string, rest: Json): SemanticText | undefined {
  return text.trim() === '' || text.length > MAX_TEXT_LENGTH ? undefined : { text, rest };
}

function isSystem(message: unknown): boolean {
  return isObject(message) && systemRoles.includes(message['role']);
}

/** Whether a message consists of texts alone. */
function isPlain(message: unknown, { textTypes }: Shape): boolean {
  if (!isObject(message)) return false;
  const { type, role, content } = message;
  if (role !== 'user' && role !== 'assistant' && !systemRoles.includes(role)) return false;
  if (type !== undefined && type !== 'message') return false;
  if (hasEntries(message['tool_calls']) || isObject(message['function_call']) || isObject(message['audio']))
    return false;
  if (typeof content === 'string') return true;
  return Array.isArray(content) && content.every((part) => isTextPart(part, textTypes));
}

function isTextPart(part: unknown, textTypes: readonly unknown[]): boolean {
  return isObject(part) && textTypes.includes(part['type']) && typeof part['text'] === 'string';
}

function hasEntries(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : value !== undefined && value !== null;
}

function textIn(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part: unknown) => (isObject(part) ? String(part['text']) : '')).join('\n\n');
}

/** The content with null for its texts. The other members of the parts stay. */
function blankOf(content: unknown): unknown {
  if (!Array.isArray(content)) return null;
  return content.map((part: unknown) => (isObject(part) ? { ...part, text: null } : part));
}
