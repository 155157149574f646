/** A model request as it arrives: its caller, its client, its session, and its body, parsed once. */
import { isUtf8 } from 'node:buffer';
import { createHash, hash } from 'node:crypto';
import type { UserPath } from '../../events/event.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isCredentialHeader } from '../header-names.ts';
import { type Refusal, refusals } from '../refusal.ts';
import type { VisibilityScope } from '../visibility.ts';
import { OUTPUT_LIMITS } from './usage.ts';

/** A model request as it was received, before its body is read. */
export interface ModelRequest {
  readonly caller: Caller;
  readonly requestId: string;
  /** The exchange for which the gateway itself sends the request. */
  readonly causationId?: string | undefined;
  readonly traceparent?: string;
  readonly method: string;
  /** Path and query, credentials redacted. */
  readonly path: string;
  /** Lower-case names, credentials redacted. */
  readonly headers: Record<string, string>;
  readonly clientIp?: string;
  /** Subject of the certificate that the client has presented. */
  readonly clientSubject?: string | undefined;
  /** Labels of the key and of tagging headers, each once; undefined when there are none. */
  readonly labels?: readonly string[] | undefined;
  /**
   * The client's name of its session, within its user path. Taken from the headers, or from the body once it is
   * parsed.
   */
  sessionId?: string | undefined;
  readonly body: Buffer;
  /** Replaces `body` when it is too large to be read whole. Only a passthrough takes it. */
  readonly bodyPieces?: AsyncIterable<Buffer>;
}

/** The caller of a request and its rights. Determined by authentication, before the exchange begins. */
export interface Caller {
  readonly actor: 'master' | 'system' | `key:${string}`;
  readonly userPath?: UserPath | undefined;
  readonly authMethod: 'master_key' | 'api_key' | 'no_key';
  /** Which stored objects the caller sees. */
  readonly visibility: VisibilityScope;
  /** The settings of a managed key; undefined for the master key, and where no key is required. */
  readonly key?: CallerKey | undefined;
  /** Hash of the managed key's secret that was sent: of two accepted secrets, one expires earlier. */
  readonly secretHash?: string | undefined;
  /** Id of the client secret that was sent in place of the key. */
  readonly clientSecret?: string;
  /** Whether a rotation has replaced that secret: during its grace period it is not accepted for administration. */
  readonly hasPreviousSecret?: boolean;
  /**
   * `plugin`: the gateway calls a model itself, for a guardrail or the semantic cache. Guardrails do not run for the call, and what restricts
   * clients to models does not restrict it, because an administrator chose its model. `tools`: it calls the model of a
   * response whose tools it runs, with the rights of the client; guardrails and plugins have read the client's request.
   */
  readonly origin?: 'plugin' | 'tools';
}

export interface CallerKey {
  readonly id: string;
  /** The path the key is bound to. It is then the caller's `userPath`, and the subtree that the key administers. */
  readonly userPath: UserPath | undefined;
  readonly dashboardAccess: boolean;
  /** Canonical selectors; empty: the key itself restricts nothing. */
  readonly allowedModels: readonly string[];
  readonly labels: readonly string[];
}

/** By what a circuit breaker tells callers apart: the managed key, else the user path. */
export function callerName({ key, userPath }: Pick<Caller, 'key' | 'userPath'>): string {
  return key?.id ?? userPath ?? '';
}

// The client of an exchange. The HTTP side implements it.

/** Why the exchange has to end early: the reason of the `ended` signal. */
export type EndReason = 'client_gone' | 'gateway_stopping' | 'cancelled';

export interface StreamKeptOpen {
  readonly headers: Record<string, string>;
  /** The end of a stream without an answer; undefined when its dialect has none. */
  failure(refusal: Refusal): Uint8Array | undefined;
}

export interface Client {
  /** Aborted, with an `EndReason`, when no client waits for the answer any more or the gateway must stop. */
  readonly ended: AbortSignal;
  /** Sends the whole answer. */
  answer(status: number, headers: Record<string, string>, body: Uint8Array): void;
  /** Sends an error: as the answer, at the end of a stream kept open, or, when an answer has begun, by cutting it off. */
  refuse(refusal: Refusal, headers: Record<string, string>): void;
  /** Whether `begin` was called. */
  readonly begun: boolean;
  /**
   * Sends comments of an event stream before an answer has begun. The head of the stream is sent before the first of
   * them; `begin` and `refuse` may still follow.
   */
  keepOpen(comments: Uint8Array, stream: StreamKeptOpen): void;
  /** Whether the client got the head of an event stream by `keepOpen`. */
  readonly isKeptOpen: boolean;
  /** Begins an answer whose bytes follow. */
  begin(status: number, headers: Record<string, string>): void;
  /**
   * Sends one piece of the answer. Returns a promise when the client reads too slowly; it resolves when the client
   * has caught up, and the exchange reads nothing more from the provider until then.
   */
  write(bytes: Uint8Array): Promise<void> | undefined;
  end(): void;
}

// The body of a model request, as its dialect reads it.

/** The provider that a refused request named. */
interface ProviderName {
  readonly name: string;
  readonly type: string;
}

/** A request body, parsed once. */
export interface ParsedRequest {
  /** The selector as the client wrote it; empty when no model is called. */
  readonly model: string;
  /** The routing hint in the body's `provider` member. */
  readonly provider: string | undefined;
  readonly stream: boolean;
  readonly json: Record<string, unknown>;
}

/**
 * Members of requests that name what is called, its input, or an object, or that decide what it costs. A body with one of
 * them in another spelling is not passed on: some servers ignore the case of names.
 */
export const READ_MEMBERS: ReadonlySet<string> = new Set([
  ...['model', 'provider', 'stream', 'messages', 'input', 'instructions', 'system', 'prompt', 'suffix', 'metadata'],
  ...['tools', 'tool_choice', 'functions', 'response_format', 'text', 'reasoning', 'thinking', 'modalities', 'audio'],
  ...['background', 'store', 'previous_response_id', 'conversation', 'container', 'service_tier', 'web_search_options'],
  ...['n', 'n_cmpl', 'best_of', 'options', 'sampling_params', 'min_tokens', 'max_tool_calls', ...OUTPUT_LIMITS],
]);

export type ReadResult =
  | { readonly ok: true; readonly parsedRequest: ParsedRequest }
  | {
      readonly ok: false;
      readonly refusal: Refusal;
      /** What is known of the request, to be recorded with the refusal. */
      readonly known?: { readonly parsedRequest: ParsedRequest; readonly provider: ProviderName | undefined };
    };

interface JsonReader {
  read(json: unknown): ReadResult;
}

/** Reads a body that is one JSON text, with its dialect. */
export function readJson(dialect: JsonReader, body: Buffer): ReadResult {
  if (!isUtf8(body)) return { ok: false, refusal: refusals.malformedJson('it is not valid UTF-8') };
  let json: unknown;
  try {
    json = parseExactly(body.toString());
  } catch (error) {
    const detail = body.length === 0 ? 'it is empty' : error instanceof Error ? error.message : 'it cannot be read';
    return { ok: false, refusal: refusals.malformedJson(detail) };
  }
  return dialect.read(json);
}

// Determines the session of a request by the headers and fields that clients use for it. Headers are checked first,
// since most clients name a session there; the body only when it is parsed anyway.

export interface SessionRules {
  readonly enabled: boolean;
  /** Whether the headers and fields of well-known clients are checked. */
  readonly builtinRules: boolean;
  /** Whether a conversation without a session name is identified by its beginning. */
  readonly autoDetect: boolean;
  /** Checked before the built-in headers. Lower-case names. */
  readonly headers: readonly SessionHeader[];
}

interface SessionHeader {
  readonly header: string;
  /** `session-uuid`: the value contains more than the session; only its UUID is used. */
  readonly transform: 'session-uuid' | undefined;
}

export interface Sessions {
  /** Undefined when no header names one. */
  inHeaders(headers: Readonly<Record<string, unknown>>, userPath: UserPath | undefined): string | undefined;
  /** Undefined when the body does not name one. */
  inBody(json: Readonly<Record<string, unknown>>, userPath: UserPath | undefined): string | undefined;
}

/** In the order of the checks; the header of a product before one that the product may forward. */
const BUILTIN_HEADERS = [
  'x-session-id',
  'x-opencode-session',
  'x-claude-code-session-id',
  'session-id',
  'session_id',
  'x-litellm-session-id',
  'helicone-session-id',
  'agent-session-id',
];

const MAX_LENGTH = 200;
const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
/**
 * Claude Code's `metadata.user_id`, which was `user_…_account_…_session_<uuid>` and is now JSON with a `session_id`.
 */
const SESSION_UUID = new RegExp(`(?:session_|"session_id"\\s*:\\s*")(${UUID})`, 'i');
const ANY_UUID = new RegExp(UUID, 'i');

export const noSessions: Sessions = { inHeaders: () => undefined, inBody: () => undefined };

/** @throws Error when a configured header holds credentials: a session's name is recorded */
export function createSessions({ enabled, builtinRules, autoDetect, headers: own }: SessionRules): Sessions {
  if (!enabled) return noSessions;
  for (const { header } of own) {
    if (isCredentialHeader(header)) {
      throw new Error(`session.headers: '${header}' holds credentials, which must not name a session`);
    }
  }
  const rules: SessionHeader[] = [...own];
  if (builtinRules) {
    const named = new Set(own.map(({ header }) => header));
    for (const header of BUILTIN_HEADERS) if (!named.has(header)) rules.push({ header, transform: undefined });
  }
  return {
    inHeaders(headers, userPath) {
      for (const { header, transform } of rules) {
        const value = headers[header];
        if (typeof value !== 'string') continue;
        const id = usable(transform === undefined ? value : sessionUuid(value));
        if (id !== undefined) return scopedSession(id, userPath);
      }
      return undefined;
    },
    inBody(json, userPath) {
      if (builtinRules) {
        const { metadata, session_id, litellm_session_id, prompt_cache_key, conversation } = json;
        const userId = memberOf(metadata, 'user_id');
        const id =
          (typeof userId === 'string' ? SESSION_UUID.exec(userId)?.[1] : undefined) ??
          usable(session_id) ??
          usable(litellm_session_id) ??
          usable(prompt_cache_key) ??
          usable(typeof conversation === 'string' ? conversation : memberOf(conversation, 'id'));
        if (id !== undefined) return scopedSession(id, userPath);
      }
      return autoDetect ? ofOpening(json, userPath) : undefined;
    },
  };
}

function sessionUuid(value: string): string | undefined {
  return SESSION_UUID.exec(value)?.[1] ?? ANY_UUID.exec(value)?.[0];
}

/** Undefined for a name that is too long or has control characters. */
function usable(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const id = value.trim();
  return id === '' || id.length > MAX_LENGTH || /\p{Cc}/u.test(id) ? undefined : id;
}

/**
 * Separates sessions by user path, so that a caller cannot guess the name of a session under another path: a session
 * under a path is identified by a digest of both. Without a path the name is unchanged, unless it looks like such a
 * digest.
 */
export function scopedSession(id: string, userPath: UserPath | undefined): string {
  if (userPath === undefined && !id.startsWith('scoped-')) return id;
  return `scoped-${hash('sha256', `${userPath ?? ''}\n${id}`).slice(0, 32)}`;
}

/** Messages beyond these are not read. */
const MAX_OPENING = 8;
/** Bytes beyond these are not read; they suffice to identify a conversation. */
const MAX_OPENING_BYTES = 64 * 1024;

/**
 * A digest of the parts that stay the same in a conversation: model, system text, tools, and everything up to the
 * first question.
 */
function ofOpening(json: Readonly<Record<string, unknown>>, userPath: UserPath | undefined): string | undefined {
  const { model, system, instructions, tools, messages, input } = json;
  const opening = openingOf(messages ?? input);
  if (opening === undefined) return undefined;
  const digest = createHash('sha256').update(`${userPath ?? ''}\n`);
  for (const part of [model, system, instructions, tools, opening]) {
    digest.update((JSON.stringify(part) ?? '').slice(0, MAX_OPENING_BYTES)).update('\n');
  }
  return `auto-${digest.digest('hex').slice(0, 32)}`;
}

function openingOf(turns: unknown): unknown {
  if (typeof turns === 'string') return turns === '' ? undefined : turns;
  if (!Array.isArray(turns)) return undefined;
  const first = turns.slice(0, MAX_OPENING).findIndex((turn) => memberOf(turn, 'role') === 'user');
  return first === -1 ? undefined : turns.slice(0, first + 1);
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
