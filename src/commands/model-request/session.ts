/**
 * Determines the session of a request by the headers and fields that clients use for it. Headers are checked first,
 * since most clients name a session there; the body only when it is parsed anyway.
 */
import { createHash, hash } from 'node:crypto';
import type { UserPath } from '../../events/event.ts';
import { isCredentialHeader } from '../header-names.ts';

export interface SessionRules {
  readonly enabled: boolean;
  /** Whether the headers and fields of well-known clients are checked. */
  readonly builtinRules: boolean;
  /** Whether a conversation without a session name is identified by its beginning. */
  readonly autoDetect: boolean;
  /** Checked before the built-in headers. Lower-case names. */
  readonly headers: readonly SessionHeader[];
}

export interface SessionHeader {
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
      const id = builtinRules ? named(json) : undefined;
      if (id !== undefined) return scopedSession(id, userPath);
      return autoDetect ? ofOpening(json, userPath) : undefined;
    },
  };
}

/** The session named in one of the fields that clients use for it. */
function named({ metadata, session_id, litellm_session_id, prompt_cache_key, conversation }: Record<string, unknown>) {
  const userId = memberOf(metadata, 'user_id');
  return (
    (typeof userId === 'string' ? SESSION_UUID.exec(userId)?.[1] : undefined) ??
    usable(session_id) ??
    usable(litellm_session_id) ??
    usable(prompt_cache_key) ??
    usable(typeof conversation === 'string' ? conversation : memberOf(conversation, 'id'))
  );
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
