/** The end of an exchange that the gateway answered without a provider. */
import { frameDelivered } from '../../../events/catalogue/guarded-exchange.ts';
import { previousResponseOf } from '../../responses/previous-response.ts';
import type { OwnAnswer } from '../answer-source.ts';
import { answerHeaders } from '../delivery/answer-headers.ts';
import { streamOfGiven, wholeOfGiven } from '../delivery/given-answer.ts';
import { NO_ATTEMPT, sendWhole, wholeContentType } from '../delivery/send-whole.ts';
import { pastAttempt } from '../guarding/guarded-plan.ts';
import { noteConversationTurn } from '../record/append-conversation-turn.ts';
import * as events from '../record/end-events.ts';
import type { RunningExchange } from './running-exchange.ts';

/** @returns the status of the answer. @throws LogUnavailable */
export async function completeOwnAnswer(
  { given: answerFor, target, parsedRequest, policy, ticket }: OwnAnswer,
  { dialect, record, request, client, guarded }: RunningExchange,
): Promise<number> {
  const guard = guarded?.guard;
  const historyReplayed = guarded?.merged !== undefined;
  const given = answerFor(pastAttempt({ parsedRequest, request, target, record, historyReplayed }));
  const { relay } = given;
  const { stream } = parsedRequest;
  const bytes = stream ? streamOfGiven(given) : wholeOfGiven(given);
  const stored = dialect.keeps?.(parsedRequest) === true ? relay.response?.() : undefined;
  const placeholders = guard?.placeholders.recorded();
  const { provider, model } = target;
  if (stored !== undefined) {
    events.noteResponse(record, stored, {
      ...{ provider: provider.name, providerType: provider.type, model, native: false, placeholders },
      previousResponseId: previousResponseOf(parsedRequest),
      inputItems: dialect.inputItems?.(parsedRequest, stored.id) ?? '[]',
    });
  }
  const by = { sight: request.caller.sight, placeholders: guard?.placeholders.added() };
  await noteConversationTurn(dialect, parsedRequest, relay, record, by);
  const keepsBodies = policy.capture === 'full';
  if (stream && keepsBodies) {
    record.note(frameDelivered.create({ attempt: NO_ATTEMPT, index: 0 }, record.context, bytes));
  }
  const received = { chunks: 0, bytes: 0, firstByteMs: undefined };
  events.noteCompleted(record, received, {
    ...{ status: 200, attempt: NO_ATTEMPT, provider: provider.name, model: model || undefined },
    finishReason: relay.finishReason?.() ?? null,
    responseId: stored?.id,
    answer: stream || !keepsBodies || stored !== undefined ? undefined : bytes,
  });
  await record.flush('durable');
  const reply = { status: 200, headers: { 'content-type': wholeContentType(parsedRequest) } };
  const headers = answerHeaders({ dialect, parsedRequest, target, record, request, ticket, guard }, reply);
  return sendWhole(client, parsedRequest, headers, bytes);
}
