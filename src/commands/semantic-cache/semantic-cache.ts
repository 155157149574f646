/**
 * Finds the answer to a similar request: one that is equal but for the last user text, and whose text is close enough.
 * The answers themselves are in the response cache, under the digests that the vectors have.
 */

import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { vectorStored } from '../../events/catalogue/cache.ts';
import type { EventContext, NewEvent } from '../../events/event.ts';
import { isObject } from '../../json/is-object.ts';
import { type EmbeddingCall, EmbeddingCallFailed } from '../auxiliary-calls/auxiliary-calls.ts';
import { CircuitBreaker } from '../exchange/attempts/circuit-breaker.ts';
import { bytesOfVector, type Neighbour, normalised, type StoredVector, type VectorStore } from './vector-store.ts';

interface SemanticCacheSettings {
  /** Least similarity, unless the request states another. */
  readonly threshold: number;
  readonly ttlSeconds: number;
  readonly maxMessages: number;
  readonly excludeSystemPrompt: boolean;
}

export interface SemanticCacheParts {
  readonly settings: SemanticCacheSettings;
  readonly embedder: Pick<Embedder, 'embed' | 'space'>;
  readonly store: VectorStore;
  /** Whether the log is where vectors survive a restart. */
  readonly recordsVectors: boolean;
  now(): number;
}

interface SearchedText {
  readonly partition: string;
  readonly vector: Float32Array;
  readonly threshold: number;
}

const REMOVED_AT_ONCE = 500;
/** A server may compute with less precise numbers. */
const ROUNDING = 1e-5;
/** Vectors whose answers are gone that one search removes. */
const MAX_STALE = 8;
/** Of a search for an answer that was recorded just before, in milliseconds. */
const LONGEST_WAIT_MS = 250;

const dialects: ReadonlySet<string> = new Set(['chat', 'responses', 'messages'] satisfies SemanticDialect[]);

function isSemanticDialect(name: string): name is SemanticDialect {
  return dialects.has(name);
}

export class SemanticCache {
  readonly #parts: SemanticCacheParts;
  /** By partition: resolves when the vectors of answers that were just recorded are kept. */
  readonly #arriving = new Map<string, Promise<void>>();

  constructor(parts: SemanticCacheParts) {
    this.#parts = parts;
  }

  get settings(): SemanticCacheSettings {
    return this.#parts.settings;
  }

  /** Distinguishes vectors of different models. */
  get space(): string {
    return this.#parts.embedder.space;
  }

  /** @returns undefined for a request that must not be searched */
  textOf(dialect: string, body: Readonly<Record<string, unknown>>): SemanticText | undefined {
    return isSemanticDialect(dialect) ? semanticText(dialect, body, this.#parts.settings) : undefined;
  }

  /** Never rejects. */
  embed(text: TextToEmbed): Promise<Float32Array | undefined> {
    return this.#parts.embedder.embed(text);
  }

  /**
   * The nearest vector whose answer is still there. Never rejects.
   * @param isThere whether the response cache has an answer with this digest, for requests of the partition
   */
  async nearest(searched: SearchedText, isThere: (digest: string) => boolean): Promise<Neighbour | undefined> {
    const { store, now } = this.#parts;
    await this.#arriving.get(searched.partition);
    for (let stale = 0; stale <= MAX_STALE; stale++) {
      const found = await store.nearest({ ...searched, now: now() });
      if (found === undefined) return undefined;
      const isNear = found.similarity >= searched.threshold - ROUNDING && found.similarity <= 1;
      if (isNear && isThere(found.digest)) return found;
      // The answer was purged, gave way to others, or the server gave a row that does not fit. The request does not wait for a server.
      if (store.remove([found.digest]) instanceof Promise) return undefined;
    }
    return undefined;
  }

  /** Removes the vectors of answers that were purged. Never rejects; failures of a server are counted. */
  async forget(digests: readonly string[]): Promise<void> {
    for (let from = 0; from < digests.length; from += REMOVED_AT_ONCE) {
      await this.#parts.store.remove(digests.slice(from, from + REMOVED_AT_ONCE));
    }
  }

  /** The time after which a vector is not found, within the life of its answer. */
  expiry(answerExpiresAt: number): number {
    const { now, settings } = this.#parts;
    return Math.min(answerExpiresAt, Math.floor(now()) + settings.ttlSeconds * 1000);
  }

  /** The event of a vector; undefined where the log does not keep them. */
  eventOf({ digest, partition, vector, expiresAt }: StoredVector, context: EventContext): NewEvent | undefined {
    if (!this.#parts.recordsVectors) return undefined;
    const data = { digest, partition, expiresAt, model: this.space, dimensions: vector.length };
    return vectorStored.create(data, context, bytesOfVector(vector));
  }

  /**
   * Keeps the vector once its answer can be found. Searches of its partition that begin before wait for that, so that a
   * client that got the answer finds it. Without an effect when `answerIsThere` rejects.
   */
  add(entry: StoredVector, answerIsThere: Promise<void>): void {
    const { partition } = entry;
    const kept = answerIsThere.then(
      // A server may take its time.
      () => void this.#parts.store.add(entry),
      () => {},
    );
    const late = sleep(LONGEST_WAIT_MS, undefined, { ref: false });
    const all = Promise.race([Promise.all([this.#arriving.get(partition), kept]), late]).then(() => {
      if (this.#arriving.get(partition) === all) this.#arriving.delete(partition);
    });
    this.#arriving.set(partition, all);
  }
}

/** The vector of a text, from the configured model. Without one, the request is served as if there were no such cache. */
interface EmbedderOptions {
  /** @throws EmbeddingCallFailed */
  embed(call: EmbeddingCall): Promise<Float32Array>;
  readonly model: string;
  readonly provider: string | undefined;
  /** Longest time that an embedding delays its request. */
  readonly timeoutMs: number;
  /** Called with each failure, for metrics and the operator's own log. */
  failed(error: unknown): void;
  now(): number;
}

interface TextToEmbed {
  readonly text: string;
  readonly requestId: string;
  readonly exchangeId: string;
  /** The caller's. */
  readonly userPath: string | undefined;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
}

/** After so many failures in a row no embedding is computed, for so long. */
const FAILURES = 5;
const OPEN_MS = 30_000;
/** Of the vectors of recent texts. */
const RECENT_BYTES = 16 * 1024 * 1024;
const ENTRY_BYTES = 300;

export class Embedder {
  readonly #options: EmbedderOptions;
  readonly #breaker: CircuitBreaker;
  /** By digest of user path and text. */
  readonly #recent = new LRUCache<string, Float32Array>({
    maxSize: RECENT_BYTES,
    sizeCalculation: ({ byteLength }) => byteLength + ENTRY_BYTES,
  });

  constructor(options: EmbedderOptions) {
    this.#options = options;
    const policy = { enabled: true, failureThreshold: FAILURES, successThreshold: 1, openMs: OPEN_MS };
    this.#breaker = new CircuitBreaker({ ...policy, isFailure: () => true }, options.now, () => {});
  }

  /** Distinguishes the vectors of this model from those of others. */
  get space(): string {
    const { provider = '', model } = this.#options;
    return JSON.stringify([provider, model]);
  }

  /**
   * Resolves with a vector of length 1, or with undefined, within the time limit. Never rejects. A recent text of the
   * same user path is not embedded again.
   */
  async embed(given: TextToEmbed): Promise<Float32Array | undefined> {
    const key = hash('sha256', JSON.stringify([given.userPath, given.text]));
    const recent = this.#recent.get(key);
    if (recent !== undefined) return recent;
    const vector = await this.#embedded(given);
    if (vector !== undefined) this.#recent.set(key, vector);
    return vector;
  }

  async #embedded({ text, requestId, exchangeId, userPath, signal }: TextToEmbed): Promise<Float32Array | undefined> {
    const { embed, model, provider, timeoutMs, failed } = this.#options;
    const { permit } = this.#breaker.enter();
    if (permit === undefined) return undefined;
    const late = AbortSignal.timeout(timeoutMs);
    try {
      const vector = await embed({
        ...{ text, model, provider, requestId, exchangeId },
        userPath: `${(userPath ?? '').replace(/\/$/, '')}/cache/semantic`,
        signal: AbortSignal.any([signal, late]),
      });
      permit.end('succeeded');
      return normalised(vector);
    } catch (error) {
      const isCancelled = signal.aborted && !late.aborted;
      const isRefused = error instanceof EmbeddingCallFailed && error.failure === 'refused';
      permit.end(isCancelled || isRefused ? 'neutral' : 'failed');
      if (!isCancelled) failed(late.aborted ? new Error(`no embedding within ${timeoutMs} ms`) : error);
      return undefined;
    }
  }
}

// What a semantic search compares of a request: the last text of the user. Everything else of its body is the rest,
// which must be equal before texts are compared at all.

/** The dialects whose requests can be searched. Requests for embeddings never are. */
export type SemanticDialect = 'chat' | 'responses' | 'messages';

export interface SemanticTextOptions {
  /** Messages of the user and of the model. A longer conversation is not searched. */
  readonly maxMessages: number;
  /** Whether requests with different system prompts share their answers. */
  readonly excludeSystemPrompt: boolean;
}

interface SemanticText {
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
