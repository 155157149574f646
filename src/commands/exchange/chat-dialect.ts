/** `POST /v1/chat/completions`: forwarded as it is, but for the model's name and what the provider's type needs. */
import { adjustChatBody } from '../../providers/chat-adjustments.ts';
import { rewriteMembers } from '../../providers/json-members.ts';
import { parseChatRequest } from '../chat/chat-request.ts';
import { Refusal } from '../refusal.ts';
import type { Asked, ExchangeDialect, PlanInput, ReadResult } from './dialect.ts';
import type { Plan } from './relay.ts';
import { ChatRelay } from './relay-chat.ts';
import { TranslatedChatRelay } from './relay-chat-translated.ts';
import { chatAnswerFacts, chatDialectOf, chatReader, upstreamChat } from './upstream-chat.ts';
import { isObject } from './usage.ts';

export interface ChatDialectOptions {
  /** Whether providers are asked for usage on every stream, so that it is recorded. */
  readonly enforceUsage: boolean;
}

export function createChatDialect({ enforceUsage }: ChatDialectOptions): ExchangeDialect {
  return {
    name: 'chat',
    endpoint: '/v1/chat/completions',
    read: (json) => readWith(parseChatRequest(json)),
    plan(input: PlanInput): Plan {
      const { asked, body, target, record, createdAt } = input;
      const wantsUsage = clientWantsUsage(asked);
      if (chatDialectOf(target.provider.type) !== 'chat') {
        const { provider: _hint, ...chat } = asked.json;
        const upstream = upstreamChat({ ...chat, model: target.model }, target, asked.stream);
        const facts = chatAnswerFacts(record.id, target.model, createdAt);
        const reader = () => chatReader(upstream.dialect, facts);
        return { ...upstream, relay: () => new TranslatedChatRelay(target.provider, reader(), wantsUsage) };
      }
      const changes = memberChanges(input);
      if (asked.stream && enforceUsage && !wantsUsage) {
        const options = isObject(asked.json.stream_options) ? asked.json.stream_options : {};
        changes.stream_options = JSON.stringify({ ...options, include_usage: true });
      }
      Object.assign(changes, adjustChatBody(target.provider.type, target.model, asked.json));
      return {
        dialect: 'chat',
        body: hasMembers(changes) ? rewriteMembers(body, changes) : body,
        relay: () => new ChatRelay(target.provider, wantsUsage || !enforceUsage),
      };
    },
    relayAgain({ asked, model, provider, dialect, exchangeId, createdAt }) {
      const wantsUsage = clientWantsUsage(asked);
      if (dialect === 'chat') return new ChatRelay(provider, wantsUsage || !enforceUsage);
      const reader = chatReader(dialect, chatAnswerFacts(exchangeId, model, createdAt));
      return new TranslatedChatRelay(provider, reader, wantsUsage);
    },
  };
}

/** Whether a client that streams asked for the chunk with the usage. */
export function clientWantsUsage({ json }: Asked): boolean {
  return isObject(json.stream_options) && json.stream_options.include_usage === true;
}

/** What a parser of a request body says. */
export type Parsed =
  | { readonly ok: true; readonly request: Record<string, unknown> & { model: string } }
  | {
      readonly ok: false;
      readonly refusal: { status: number; code: string | null; param: string | null; message: string };
    };

export function readWith(parsed: Parsed): ReadResult {
  if (!parsed.ok) return { ok: false, refusal: new Refusal({ ...parsed.refusal, type: 'invalid_request_error' }) };
  const json = parsed.request;
  const provider = typeof json.provider === 'string' && json.provider !== '' ? json.provider : undefined;
  return { ok: true, asked: { model: json.model, provider, stream: json.stream === true, json } };
}

/** The members that differ between what the client sent and what the provider gets, as JSON texts. */
export function memberChanges({
  asked,
  body,
  target: { model },
}: Pick<PlanInput, 'asked' | 'body' | 'target'>): Record<string, string | undefined> {
  const changes: Record<string, string | undefined> = {};
  if (asked.model !== model || mayNameTwo(body)) changes.model = JSON.stringify(model);
  // Some servers read names in any case.
  for (const name in asked.json) {
    if (name.length === MODEL.length && name !== MODEL && name.toLowerCase() === MODEL) changes[name] = undefined;
  }
  // An object under `provider` is a provider's own routing preference and none of ours.
  if (typeof asked.json.provider === 'string') changes.provider = undefined;
  return changes;
}

const MODEL = 'model';
const MODEL_MEMBER = Buffer.from(`"${MODEL}"`);
/** How a letter begins that is written as an escape, also in the name of a member. */
const ESCAPED_LETTER = Buffer.from('\\u00');

/**
 * Whether a text may have a second member `model`. Readers differ in which of two they take, and the provider has to
 * take the one that was looked at here. Quick, and now and then wrong for the better.
 */
function mayNameTwo(body: Buffer): boolean {
  const first = body.indexOf(MODEL_MEMBER);
  return body.includes(MODEL_MEMBER, first + MODEL_MEMBER.length) || body.includes(ESCAPED_LETTER);
}

export function hasMembers(changes: object): boolean {
  for (const _ in changes) return true;
  return false;
}
