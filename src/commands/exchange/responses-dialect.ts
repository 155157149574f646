/** `POST /v1/responses`: native where the provider has it, otherwise translated to chat completions and back. */
import { historyReplayed } from '../../events/catalogue/exchange.ts';
import { rewriteMembers } from '../../providers/json-members.ts';
import { plainReasoning } from '../../providers/translate/responses-to-chat/reasoning-style.ts';
import { chatRequestFromResponses } from '../../providers/translate/responses-to-chat/request.ts';
import { providerType } from '../../providers/types.ts';
import { refusals, refusedInTranslation } from '../refusal.ts';
import type { ResponseArchive } from '../responses/archive.ts';
import { loadChain, withReferencedItems } from '../responses/chain.ts';
import { type CreateResponseRequest, parseCreateResponse } from '../responses/create-request.ts';
import { mergeHistory } from '../responses/history.ts';
import { storedInputItems } from '../responses/input-items.ts';
import { responseShell } from '../responses/response-shell.ts';
import { hasMembers, memberChanges, readWith } from './chat-dialect.ts';
import type { Asked, ExchangeDialect, PlanInput } from './dialect.ts';
import type { Plan } from './relay.ts';
import { NativeResponsesRelay } from './relay-responses-native.ts';
import { TranslatedResponsesRelay } from './relay-responses-translated.ts';
import { chatAnswerFacts, chatReader, upstreamChat } from './upstream-chat.ts';
import { isObject } from './usage.ts';

/** What a server without `/v1/responses` answers. */
const NOT_THERE = new Set([404, 405, 501]);

export interface ResponsesDialectOptions {
  readonly archive: ResponseArchive;
  /** Unix seconds. */
  readonly now: () => number;
  /** Told when an answer showed whether a provider speaks `/v1/responses`. */
  readonly learned: (provider: string, supported: boolean) => void;
}

export function createResponsesDialect({ archive, now, learned }: ResponsesDialectOptions): ExchangeDialect {
  return {
    name: 'responses',
    endpoint: '/v1/responses',
    read: (json) => readWith(parseCreateResponse(json)),
    async plan(input: PlanInput): Promise<Plan> {
      const { capabilities } = input.target.provider;
      const history = await replayedInput(input, archive);
      if (capabilities.responses === 'no') return translated(input, history, archive, now);
      const plan = native(input, history);
      if (capabilities.responses === 'yes') return plan;
      return {
        ...plan,
        instead(status, code) {
          if (!NOT_THERE.has(status) || code === 'model_not_found') return undefined;
          input.target.provider.learnResponses(false);
          learned(input.target.provider.name, false);
          return translated(input, history, archive, now);
        },
      };
    },
    inputItems: ({ json }, responseId) => JSON.stringify(storedInputItems(json.input, responseId)),
    keeps: ({ json }) => json.store !== false,
  };
}

/** The id of a response that the gateway makes itself. */
export function responseIdOf(exchangeId: string): string {
  return `resp_${exchangeId.replaceAll('-', '')}`;
}

/**
 * The input with the turns before it, when the provider cannot look them up itself; undefined when it can, or when
 * there are none.
 */
async function replayedInput(input: PlanInput, archive: ResponseArchive): Promise<unknown[] | undefined> {
  const { asked, target, record } = input;
  const previous = asked.json.previous_response_id;
  if (typeof previous !== 'string' || previous === '') return undefined;
  if (target.provider.capabilities.responseLifecycle === 'yes') {
    const head = await archive.load(previous);
    // A response of its own, or one this gateway never saw: the provider knows better. One that was translated is
    // known to nobody but us.
    if (head === undefined || (head.native && head.provider === target.provider.name)) return undefined;
  }
  const chain = await loadChain(previous, archive);
  const turns = chain.map(({ inputItems, response }) => ({ input_items: inputItems, output: outputOf(response) }));
  const merged = mergeHistory(turns, asked.json.input);
  const responses = chain.map(({ id }) => id);
  record.note(historyReplayed.create({ responses, items: merged.length }, record.context));
  return merged;
}

function outputOf(response: Readonly<Record<string, unknown>>): Record<string, unknown>[] {
  return Array.isArray(response.output) ? response.output : [];
}

function native({ asked, body, target }: PlanInput, history: unknown[] | undefined): Plan {
  const changes = memberChanges(asked, target.model);
  if (history !== undefined) {
    changes.input = JSON.stringify(history.filter(isUnderstoodNatively));
    changes.previous_response_id = undefined;
  }
  return {
    dialect: 'responses',
    body: hasMembers(changes) ? rewriteMembers(body, changes) : body,
    relay: () => new NativeResponsesRelay(target.provider),
  };
}

/** What a model thought is of use to another provider only in the form that it encrypted itself. */
function isUnderstoodNatively(item: unknown): boolean {
  return !isObject(item) || item.type !== 'reasoning' || typeof item.encrypted_content === 'string';
}

/** @throws Refusal when a chat provider cannot honour the request */
async function translated(
  { asked, target, record, createdAt }: PlanInput,
  history: unknown[] | undefined,
  archive: ResponseArchive,
  now: () => number,
): Promise<Plan> {
  const { json } = asked;
  if (json.background === true) throw refusals.unsupportedParameter('background', NATIVE_ONLY);
  const { previous_response_id: _replayed, ...request } = json;
  const input = await withReferencedItems(history ?? request.input, archive);
  const chat = chatRequestFromResponses(input === request.input ? request : { ...request, input }, {
    model: target.model,
    reasoningStyle: providerType(target.provider.type)?.reasoning ?? plainReasoning,
  });
  if (!chat.ok) throw refusedInTranslation(chat.refusal);
  const shell = shellOf(asked, { id: responseIdOf(record.id), createdAt, provider: target.provider.name });
  const upstream = upstreamChat(chat.body, target, asked.stream);
  const facts = chatAnswerFacts(record.id, asked.model, createdAt);
  return {
    ...upstream,
    relay: () => new TranslatedResponsesRelay(target.provider, chatReader(upstream.dialect, facts), shell, now),
  };
}

const NATIVE_ONLY = 'only a provider with its own Responses API can do that';

/** The response before anything was said: everything in it that is known from the request. */
export function shellOf(asked: Asked, facts: { id: string; createdAt: number; provider: string }) {
  return responseShell(asked.json as CreateResponseRequest, { ...facts, model: asked.model });
}
