/**
 * `POST /v1/chat/completions`: forwarded unchanged, except for the model's name and the changes that the provider's
 * type requires.
 */
import { isObject } from '../../../../json/is-object.ts';
import { adjustChatBody } from '../../../../providers/chat-adjustments.ts';
import { rewriteMembers } from '../../../../providers/json-members.ts';
import { MAX_CALLS } from '../../../../providers/parallel-calls.ts';
import type { ChatAnswerFacts } from '../../../../providers/translate/chat-adapter.ts';
import type { TranslationRefusal } from '../../../../providers/translate/refusal.ts';
import { parseChatRequest } from '../../../chat/chat-request.ts';
import type { ParsedRequest } from '../../../model-request/parsed-request.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import { callsFor } from '../../../model-request/token-estimate.ts';
import {
  type ExchangeDialect,
  hasMembers,
  memberChanges,
  type PastAttempt,
  type PlanInput,
  readWith,
} from '../../dialect.ts';
import type { Plan } from '../../plan.ts';
import { type Relay, translatedRelay, unchangedRelay } from '../../relay.ts';
import { ObservedCompletion } from './observed-completion.ts';
import { ChatObserver } from './observer.ts';
import { ChatAnswerReader } from './reader.ts';
import { chatAnswerFacts, chatDialectOf, chatReader, upstreamChat } from './upstream-chat.ts';
import { ChatWriter } from './writer.ts';

const ENDPOINT = '/v1/chat/completions';

export interface ChatDialectOptions {
  /** Whether the gateway requests usage from providers on every stream, in order to record it. */
  readonly enforceUsage: boolean;
}

export function createChatDialect({ enforceUsage }: ChatDialectOptions): ExchangeDialect {
  return {
    name: 'chat',
    endpoint: ENDPOINT,
    read: (json) => readWith(parseChatRequest(json)),
    plan(input: PlanInput): Plan<Relay> {
      const { parsedRequest, body, target, record, createdAt } = input;
      const wantsUsage = clientWantsUsage(parsedRequest);
      if (chatDialectOf(target.provider.type) !== 'chat') {
        const { provider: _hint, ...chat } = parsedRequest.json;
        const calls = callsFor(ENDPOINT, target.provider.type, parsedRequest.json);
        const sent = { ...chat, ...(calls > 1 ? { n: 1 } : {}), model: target.model };
        const upstream = upstreamChat(sent, target, parsedRequest.stream, withMostChoices);
        const facts = chatAnswerFacts(record.id, target.model, createdAt);
        return {
          kind: 'model',
          ...upstream,
          ...(calls > 1 ? { calls } : {}),
          relay: () => translated(target.provider, { dialect: upstream.dialect, calls }, facts, wantsUsage),
        };
      }
      const changes = memberChanges(input);
      if (parsedRequest.stream && enforceUsage && !wantsUsage) {
        const options = isObject(parsedRequest.json.stream_options) ? parsedRequest.json.stream_options : {};
        changes.stream_options = JSON.stringify({ ...options, include_usage: true });
      }
      Object.assign(changes, adjustChatBody(target.provider.type, target.model, parsedRequest.json));
      return {
        kind: 'model',
        dialect: 'chat',
        body: hasMembers(changes) ? rewriteMembers(body, changes) : body,
        relay: () => unchanged(target.provider, wantsUsage || !enforceUsage),
      };
    },
    relayOfRecorded({ parsedRequest, model, provider, dialect, calls, exchangeId, createdAt }) {
      const wantsUsage = clientWantsUsage(parsedRequest);
      if (dialect === 'chat') return unchanged(provider, wantsUsage || !enforceUsage);
      return translated(provider, { dialect, calls }, chatAnswerFacts(exchangeId, model, createdAt), wantsUsage);
    },
  };
}

function withMostChoices(refusal: TranslationRefusal): TranslationRefusal {
  if (refusal.param !== 'n') return refusal;
  const message = `'n' must be an integer from 1 to ${MAX_CALLS} for this model: its provider gives one choice, and the gateway calls it once for each.`;
  return { ...refusal, code: 'unsupported_value', message };
}

function unchanged(provider: Answering, passesUsage: boolean): Relay {
  const completion = new ObservedCompletion();
  return unchangedRelay(
    new ChatObserver(provider, completion, passesUsage),
    new ChatWriter(provider.name, passesUsage, completion),
  );
}

function translated(
  provider: Answering,
  { dialect, calls }: Pick<PastAttempt, 'dialect' | 'calls'>,
  facts: ChatAnswerFacts,
  passesUsage: boolean,
): Relay {
  const reader = new ChatAnswerReader(provider, chatReader(dialect, facts, calls));
  return translatedRelay(reader, new ChatWriter(provider.name, passesUsage));
}

/** Whether a streaming client requested the usage chunk. */
export function clientWantsUsage({ json }: ParsedRequest): boolean {
  return isObject(json.stream_options) && json.stream_options.include_usage === true;
}
