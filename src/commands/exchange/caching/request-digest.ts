/**
 * The digest under which an answer is cached: requests with the same digest would get the same answer from the same
 * target, up to the randomness of the model.
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { isNamedOnly } from '../../../providers/translate/responses-to-chat/items-to-chat-messages.ts';
import type { Target } from '../../model-request/routing-types.ts';
import type { SemanticCache } from '../../semantic-cache/semantic-cache.ts';
import { anthropicHeaders } from '../dialects/messages/messages-dialect.ts';
import { responsesHeaders } from '../dialects/responses/responses-dialect.ts';
import type { CachePolicy } from '../policy.ts';

/** Changed when the meaning of a digest changes: entries of older builds are then not found. */
const VERSION = 1;

export interface DigestedRequest {
  /** Callers with different texts never share an answer: see `cacheScopeOf`. */
  readonly scope: string;
  readonly endpoint: string;
  readonly target: Target;
  /** What evaluates the request or its answer: id of the workflow and the hashes of its guardrails. */
  readonly policy: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The client's bytes, and the JSON they contain. */
  readonly body: Buffer;
  readonly json: Readonly<Record<string, unknown>>;
  /** The request as guardrails changed it, with earlier turns; undefined when no guardrail runs. */
  readonly guarded: Readonly<Record<string, unknown>> | undefined;
}

/** Computes digests, and remembers those of the newest small bodies, which recur when answers are cached. */
export class RequestDigests {
  readonly #known = new LRUCache<string, string>({ max: REMEMBERED });

  /**
   * SHA-256, hexadecimal. White space makes no difference, and neither does the order of members outside schemas and
   * arguments. The model is that of the target, under whichever name the client requested it.
   * @returns undefined when two readers may understand the body differently, because an object has a member twice; for a
   *   body that names stored objects, such as files or items; and for one that is nested too deeply or has too many members
   */
  of(request: DigestedRequest): string | undefined {
    const { body, guarded } = request;
    const facts = factsOf(request);
    if (guarded !== undefined || body.length > REMEMBERED_BYTES) return digestOf(facts, request);
    const text = `${facts}\n${body.toString('latin1')}`;
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const digest = digestOf(facts, request);
    if (digest !== undefined) this.#known.set(text, digest);
    return digest;
  }
}

const REMEMBERED = 1_000;
const REMEMBERED_BYTES = 4_096;

/** The headers that change an answer, by endpoint. */
const headersRead: ReadonlyMap<string, (headers: DigestedRequest['headers']) => Record<string, string>> = new Map([
  ['/v1/messages', anthropicHeaders],
  ['/v1/responses', responsesHeaders],
]);

/** Everything but the body. */
function factsOf({
  scope,
  endpoint,
  target: { provider, model },
  policy,
  headers,
}: Omit<DigestedRequest, 'body'>): string {
  const read = headersRead.get(endpoint)?.(headers) ?? {};
  return JSON.stringify([
    VERSION,
    scope,
    endpoint,
    provider.name,
    provider.type,
    provider.address,
    model,
    policy,
    read,
  ]);
}

function digestOf(facts: string, { body, json, guarded }: DigestedRequest): string | undefined {
  const canonical = new CanonicalText();
  const { model, provider, ...rest } = json;
  const given = canonical.of(rest, topLevel);
  canonical.of({ model, provider }, topLevel);
  // Both names were counted, whether the body has them or not.
  const names = canonical.members - 2 + ('model' in json ? 1 : 0) + ('provider' in json ? 1 : 0);
  if (canonical.isUnfit) return undefined;
  const { colons, numbers } = scanned(body);
  if (names !== colons || namesItems(json)) return undefined;
  const sent = new CanonicalText();
  const changed = guarded === undefined ? '' : sent.of(guarded, topLevel);
  return sent.isUnfit ? undefined : hash('sha256', [facts, given, changed, ...numbers].join('\n'));
}

/** Items of earlier answers that the request names by their ids: the caller's right to them is checked later. */
function namesItems({ input }: Readonly<Record<string, unknown>>): boolean {
  return Array.isArray(input) && input.some(isNamedOnly);
}

/** A request whose JSON is without the texts that a semantic search compares. Its body is the client's. */
interface RequestRest extends DigestedRequest {
  /** Distinguishes the vectors of different models. */
  readonly space: string;
}

/**
 * SHA-256, hexadecimal: the same for requests that are equal but for those texts. Undefined for a body that is nested too
 * deeply; `RequestDigests` has accepted the body before.
 */
function partitionDigest({ space, guarded, body, ...request }: RequestRest): string | undefined {
  const { model: _model, provider: _provider, ...rest } = request.json;
  const [own, sent] = [new CanonicalText(), new CanonicalText()];
  const given = own.of(rest, topLevel);
  const changed = guarded === undefined ? '' : sent.of(guarded, topLevel);
  if (own.isUnfit || sent.isUnfit) return undefined;
  const facts = factsOf({ ...request, guarded });
  // Numbers are outside strings, and the texts within them.
  return hash('sha256', [`partition ${space}`, facts, given, changed, ...scanned(body).numbers].join('\n'));
}

const DEEPEST = 200;
/** Sorting and writing more would hold up other requests. */
const MOST_MEMBERS = 20_000;
const MOST_VALUES = 50_000;
const MOST_SORTED = 1_000;

/** How a value is written: whether its members are sorted, and how the values of its members are. */
interface Form {
  readonly sorted: boolean;
  readonly member: (name: string) => Form;
}

/** Members in the client's order, which is significant: models generate the members of a schema in its order. */
const asGiven: Form = { sorted: false, member: () => asGiven };
const contentPart: Form = { sorted: true, member: () => asGiven };
const message: Form = { sorted: true, member: (name) => (name === 'content' ? contentPart : asGiven) };
const topLevel: Form = {
  sorted: true,
  member: (name) => (name === 'messages' || name === 'input' ? message : name === 'system' ? contentPart : asGiven),
};

/** Members that name objects which a provider stores; their owner is checked when the provider is called. */
const storedObjects: ReadonlySet<string> = new Set([
  'file_id',
  'file_ids',
  'vector_store_ids',
  'container',
  'container_id',
]);

/** JSON text in which the order of members is significant only where it may be for a model. Counts all members. */
class CanonicalText {
  members = 0;
  /** Whether the value is nested too deeply, has too many members, or names stored objects. */
  isUnfit = false;
  #depth = 0;
  #values = 0;

  /** @param form of the value, or of the items of a list */
  of(value: unknown, form: Form): string {
    this.#values += 1;
    if (this.#values > MOST_VALUES) this.isUnfit = true;
    if (this.isUnfit) return 'null';
    if (typeof value !== 'object' || value === null || isExactNumber(value)) return JSON.stringify(value) ?? 'null';
    if (this.#depth === DEEPEST) {
      this.isUnfit = true;
      return 'null';
    }
    this.#depth += 1;
    const text = Array.isArray(value)
      ? this.#list(value, form)
      : this.#object(value as Readonly<Record<string, unknown>>, form);
    this.#depth -= 1;
    return text;
  }

  #list(items: readonly unknown[], form: Form): string {
    if (items.length > MOST_VALUES) this.isUnfit = true;
    return this.isUnfit ? 'null' : `[${items.map((item) => this.of(item, form)).join(',')}]`;
  }

  #object(object: Readonly<Record<string, unknown>>, form: Form): string {
    const names = Object.keys(object);
    this.members += names.length;
    if (this.members > MOST_MEMBERS || (form.sorted && names.length > MOST_SORTED)) this.isUnfit = true;
    if (this.isUnfit) return 'null';
    if (form.sorted) names.sort();
    const texts = names.map((name) => {
      const value = object[name];
      if (storedObjects.has(name) && namesObject(value)) this.isUnfit = true;
      if (name === 'audio' && isObject(value) && typeof value['id'] === 'string') this.isUnfit = true;
      return `${JSON.stringify(name)}:${this.of(value, form.member(name))}`;
    });
    return `{${texts.join(',')}}`;
  }
}

/** A schema may have properties with such names, which are objects. A container that is created has no id. */
function namesObject(value: unknown): boolean {
  return typeof value === 'string' || Array.isArray(value) || (isObject(value) && typeof value['id'] === 'string');
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

interface Scanned {
  /** How many members the text states, each occurrence counted. */
  readonly colons: number;
  /** Numbers that are equal to others in JavaScript, and need not be to a provider: `1.0`, `-0`, `1e400`. */
  readonly numbers: readonly string[];
}

/** Reads the text between the strings. @param body valid JSON */
function scanned(body: Buffer): Scanned {
  let colons = 0;
  const numbers: string[] = [];
  let at = 0;
  for (;;) {
    const quote = body.indexOf(QUOTE, at);
    const end = quote === -1 ? body.length : quote;
    for (let place = at; place < end; place += 1) if (body[place] === COLON) colons += 1;
    const between = body.toString('latin1', at, end);
    for (const [number] of between.matchAll(NUMBER)) {
      if (/[.eE]|^-0/.test(number) && JSON.stringify(Number(number)) !== number) numbers.push(number);
    }
    if (quote === -1) return { colons, numbers };
    at = afterString(body, quote + 1);
  }
}

const NUMBER = /[-\d][-+.eE\d]*/g;

/** The place after the string whose first character is at `from`. */
function afterString(body: Buffer, from: number): number {
  let at = from;
  for (;;) {
    const quote = body.indexOf(QUOTE, at);
    if (quote === -1) return body.length;
    let escapes = 0;
    while (body[quote - 1 - escapes] === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

/** What a similar request must have in common with this one, and the text by which the two are compared. */
export interface SemanticQuestion {
  readonly text: string;
  readonly partition: string;
}

export interface EmbeddedQuestion {
  readonly partition: string;
  readonly vector: Float32Array;
}

/**
 * With guardrails, the text is the one that they let pass, and both requests must be equal but for it.
 * @param dialect its name
 * @returns undefined for a request that must not be searched
 */
export function semanticQuestion(
  dialect: string,
  request: DigestedRequest,
  semantic: SemanticCache,
): SemanticQuestion | undefined {
  const own = semantic.textOf(dialect, request.json);
  if (own === undefined) return undefined;
  const sent = request.guarded === undefined ? undefined : semantic.textOf(dialect, request.guarded);
  if (request.guarded !== undefined && sent === undefined) return undefined;
  const rest = { ...request, json: own.rest, guarded: sent?.rest, space: semantic.space };
  const partition = partitionDigest(rest);
  return partition === undefined ? undefined : { text: sent?.text ?? own.text, partition };
}

/**
 * The least similarity of an answer. Where callers share answers that cannot see each other's, a request can only raise it:
 * otherwise one with a threshold of 0 would get the answers of others, on any subject.
 */
export function thresholdOf(
  given: number | undefined,
  { threshold }: SemanticCache['settings'],
  { scope }: Pick<CachePolicy, 'scope'>,
): number {
  if (given === undefined) return threshold;
  return scope === 'shared' ? Math.max(given, threshold) : given;
}
