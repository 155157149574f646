/** `POST /v1/responses/compact`: forwarded where the provider has it; elsewhere the model of the request writes a summary. */
import type { EventLog } from '../../../../events/log.ts';
import { isObject } from '../../../../json/is-object.ts';
import { responseUsage } from '../../../../providers/translate/chat-to-responses/stream.ts';
import { type ClientEvent, isUnset, type JsonObject } from '../../../../providers/translate/json.ts';
import { plainReasoning } from '../../../../providers/translate/responses-to-chat/reasoning.ts';
import {
  chatRequestFromResponses,
  ofNewInput,
  withResponsesNames,
} from '../../../../providers/translate/responses-to-chat/request.ts';
import { providerType } from '../../../../providers/types.ts';
import { isRouteMissing } from '../../../model-request/forward-operations.ts';
import { type Refusal, refusals, refusedInTranslation } from '../../../refusal.ts';
import { type FindItem, type ResponseArchive, resolvedInput } from '../../../responses/archive.ts';
import { parseInput, responseIdOf } from '../../../responses/create-request.ts';
import { asFunctionCalls } from '../../../responses/gateway-tools.ts';
import { inputItems, storedInputItems } from '../../../responses/input-items.ts';
import type { StorableResponse } from '../../../responses/storable-response.ts';
import type { Owner, VisibilityScope } from '../../../visibility.ts';
import type { ExchangeDialect, PlanInput } from '../../dialect.ts';
import type { Plan } from '../../plan.ts';
import { AnswerStream, type AnswerWriter, type WrittenEnd } from '../../response-stream.ts';
import { ChatAnswerReader } from '../chat/answer.ts';
import { chatAnswerFacts, chatReader, upstreamChat } from '../chat/chat-dialect.ts';
import { loadEarlierTurns, turnsFor } from './earlier-turns.ts';

export interface CompactDialectOptions {
  readonly archive: ResponseArchive;
  readonly log: EventLog;
  /** Finds the stored item that a caller refers to by id. */
  readonly findItem: (visibility: VisibilityScope) => FindItem;
  /** The `encrypted_content` of a summary. */
  readonly seal: (summary: string, owner: Owner) => string;
}

/** @param forward the dialect for providers that have the endpoint */
export function compactDialect(forward: ExchangeDialect, options: CompactDialectOptions): ExchangeDialect {
  return {
    ...forward,
    read(json) {
      const read = forward.read(json);
      // Its answer is never a stream.
      return read.ok ? { ok: true, parsedRequest: { ...read.parsedRequest, stream: false } } : read;
    },
    async plan(input) {
      const { serves } = input.target.provider.capabilities;
      if (serves?.includes('responses_compact') === false) return summarised(input, options);
      const plan = await forward.plan(input);
      if (serves !== undefined) return plan;
      return {
        ...plan,
        instead: (refusal) =>
          isRouteMissing(refusal, input.target.model) ? summarised(input, options) : plan.instead?.(refusal),
      };
    },
  };
}

const SUMMARISE = `Summarise the conversation above, so that it can be continued from your summary alone: what the user wants, what was decided and done, results of tools, names, numbers and open questions. Keep facts exact. Answer with the summary only.`;

/** Members of the request that say how its model is called; those of later responses have no meaning here. */
const passedOn = ['instructions', 'service_tier', 'reasoning', 'max_output_tokens', 'prompt_cache_key'];

/** @throws Refusal when the input cannot be sent to this provider */
async function summarised(planned: PlanInput, options: CompactDialectOptions): Promise<Plan<AnswerStream>> {
  const { parsedRequest, target, record, createdAt } = planned;
  const { archive, log, findItem, seal } = options;
  const read = parseInput(parsedRequest.json);
  if (!read.ok) throw refusedInTranslation(read.refusal);
  const history = await loadEarlierTurns(planned, { archive, log });
  const turns = await turnsFor({ ...planned, history }, { archive });
  const { input: given, earlier } = turns ?? { input: parsedRequest.json['input'], earlier: 0 };
  const whole = await resolvedInput(given, { find: findItem(planned.visibility), earlier });
  const { items } = asFunctionCalls(inputItems(whole));
  if (items.length === 0) throw refusals.missingParameter('input');
  const request: Record<string, unknown> = { input: [...items, { role: 'user', content: SUMMARISE }] };
  for (const name of passedOn) {
    if (!isUnset(parsedRequest.json[name])) request[name] = parsedRequest.json[name];
  }
  const chat = chatRequestFromResponses(request, {
    model: target.model,
    reasoningStyle: providerType(target.provider.type)?.reasoning ?? plainReasoning,
  });
  if (!chat.ok) throw refusedInTranslation(ofNewInput(chat.refusal, earlier));
  const upstream = upstreamChat(chat.body, target, false, withResponsesNames);
  const { actor, userPath } = record.context;
  return {
    kind: 'model',
    ...upstream,
    newStream() {
      const facts = chatAnswerFacts(record.id, target.model, createdAt);
      const reader = new ChatAnswerReader(target.provider, chatReader(upstream.dialect, facts));
      const writer = new CompactionFromChat({
        ...{ exchangeId: record.id, createdAt, provider: target.provider.name, given },
        seal: (summary) => seal(summary, { userPath, createdBy: actor }),
      });
      return new AnswerStream(reader, writer);
    },
  };
}

interface CompactionFacts {
  readonly exchangeId: string;
  readonly createdAt: number;
  readonly provider: string;
  /** The input with the turns before it. */
  readonly given: unknown;
  readonly seal: (summary: string) => string;
}

/** The user's messages as they are, and one item for everything. */
class CompactionFromChat implements AnswerWriter {
  readonly namesEvents = false;
  finishReason: string | null = null;
  readonly #facts: CompactionFacts;
  #response: StorableResponse | undefined;

  constructor(facts: CompactionFacts) {
    this.#facts = facts;
  }

  writeWhole(completion: unknown): JsonObject {
    const { exchangeId, createdAt, provider, given, seal } = this.#facts;
    const [choice] = isObject(completion) && Array.isArray(completion['choices']) ? completion['choices'] : [];
    const message = isObject(choice) && isObject(choice['message']) ? choice['message'] : {};
    const { content } = message;
    if (isObject(choice) && typeof choice['finish_reason'] === 'string') this.finishReason = choice['finish_reason'];
    if (typeof content !== 'string' || content.trim() === '') {
      throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer without a summary.`);
    }
    if (this.finishReason === 'length') {
      const why = `The summary of the provider '${provider}' is longer than its limit of tokens.`;
      throw refusals.badAnswer(provider, why, 'answer_incomplete');
    }
    const id = responseIdOf(exchangeId);
    const users = storedInputItems(given, id)
      .filter(({ type, role }) => type === 'message' && role === 'user')
      .map((item) => ({ ...item, status: 'completed' }));
    const compaction = { id: id.replace('resp_', 'cmp_'), type: 'compaction', encrypted_content: seal(content) };
    const answer = {
      ...{ id, object: 'response.compaction', created_at: createdAt, output: [...users, compaction] },
      usage: responseUsage(isObject(completion) ? completion['usage'] : undefined) ?? responseUsage({}),
    };
    this.#response = { id, status: 'completed', json: JSON.stringify(answer) };
    return answer;
  }

  /** For the record, not to be stored. */
  response(): StorableResponse | undefined {
    return this.#response;
  }

  write(): readonly JsonObject[] {
    return [];
  }

  finish(): WrittenEnd {
    return { events: [], cut: false };
  }

  broken(refusal: Refusal): readonly ClientEvent[] {
    return [refusal.envelope()];
  }

  abandon(): readonly ClientEvent[] {
    return [];
  }
}
