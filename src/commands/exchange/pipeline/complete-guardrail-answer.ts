/** The end of an exchange that a guardrail answered in the prompt phase. */
import { frameDelivered } from '../../../events/catalogue/guarded-exchange.ts';
import { previousResponseOf } from '../../responses/previous-response.ts';
import type { GuardrailAnswer } from '../answer-source.ts';
import { answerHeaders } from '../delivery/answer-headers.ts';
import { NO_ATTEMPT, sendWhole, wholeContentType } from '../delivery/send-whole.ts';
import { pastAttempt } from '../guarding/guarded-plan.ts';
import { streamOfText, wholeOfText } from '../guarding/text-answer.ts';
import { noteConversationTurn } from '../record/append-conversation-turn.ts';
import * as events from '../record/end-events.ts';
import type { RunningExchange } from './running-exchange.ts';

/** @returns the status of the answer. @throws LogUnavailable */
export async function completeGuardrailAnswer(
  { text, target, parsedRequest, policy, ticket }: GuardrailAnswer,
  { dialect, record, request, client, guarded }: RunningExchange,
): Promise<number> {
  const answers = guarded?.endpoint.answers;
  if (guarded === undefined || answers === undefined) throw new Error('this endpoint has no answers of guardrails');
  const { guard } = guarded;
  const historyReplayed = guarded.merged !== undefined;
  const given = answers.ofText(text, pastAttempt({ parsedRequest, target, record, historyReplayed }));
  const { relay } = given;
  const { stream } = parsedRequest;
  const bytes = stream ? streamOfText(given) : wholeOfText(given);
  const stored = dialect.keeps?.(parsedRequest) === true ? relay.response?.() : undefined;
  const placeholders = guard.placeholders.recorded();
  const { provider, model } = target;
  if (stored !== undefined) {
    events.noteResponse(record, stored, {
      ...{ provider: provider.name, providerType: provider.type, model, native: false, placeholders },
      previousResponseId: previousResponseOf(parsedRequest),
      inputItems: dialect.inputItems?.(parsedRequest, stored.id) ?? '[]',
    });
  }
  const by = { sight: request.caller.sight, placeholders: guard.placeholders.added() };
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
  const headers = answerHeaders({ dialect, parsedRequest, record, request, ticket, guard }, reply);
  return sendWhole(client, parsedRequest, headers, bytes);
}
