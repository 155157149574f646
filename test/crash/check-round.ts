/** Every check on the events since the last check. */
import { checkAnswers } from './check-answers.ts';
import {
  type AnswerUnderKey,
  type BackgroundOutcome,
  checkNotMadeTwice,
  checkPromises,
} from './check-background-and-repeated.ts';
import { checkCachedAnswers, checkCachedExchanges } from './check-cached.ts';
import { checkExchanges } from './check-exchanges.ts';
import {
  checkGuardedExchanges,
  checkOriginalValues,
  checkStoredPlaceholders,
  type WorkflowKind,
} from './check-guarded.ts';
import { checkPluginAnswers, checkPluginExchanges, checkReplacedWords } from './check-plugin.ts';
import { checkProviderCalls } from './check-provider-calls.ts';
import { checkContents, checkResponses, type Deletion, type KnownResponse } from './check-responses.ts';
import type { Conversation, LogFailure, ProviderCall, Retrieved, Violation } from './evidence.ts';
import { metFailure } from './log-failures.ts';
import type { RecordedLog } from './recorded-log.ts';

export interface Evidence {
  readonly conversations: readonly Conversation[];
  readonly calls: readonly ProviderCall[];
  /** Responses whose id a client has seen, and those of earlier rounds that are checked once more. */
  readonly responses: readonly KnownResponse[];
  readonly deleted: ReadonlyMap<string, Deletion>;
  /** The state of the background responses that were accepted. */
  readonly promises?: readonly BackgroundOutcome[];
  /** All answers under each idempotency key. */
  readonly given?: readonly AnswerUnderKey[];
  /** The versions of workflows with guardrails, by id. */
  readonly workflows?: ReadonlyMap<string, WorkflowKind>;
  /** When the gateway was killed, on the clock of `performance.now()`: until then no answer may break off. */
  readonly killedAt: number;
  /** When the log could not be written under the load: requests that meet it may be refused or broken off. */
  readonly logFailures?: readonly LogFailure[];
  /** Whether it got SIGTERM, and so let every answer that had begun come to its end. */
  readonly orderly: boolean;
}

/** @param retrieve gets a response from the gateway that was started again */
export async function checkRound(
  evidence: Evidence,
  log: RecordedLog,
  retrieve: (id: string) => Promise<Retrieved>,
): Promise<Violation[]> {
  const {
    conversations,
    calls,
    responses,
    deleted,
    promises = [],
    given = [],
    workflows = new Map(),
    killedAt,
    logFailures = [],
    orderly,
  } = evidence;
  const unaffected = conversations.filter(({ answer }) => !metFailure(answer, logFailures));
  return [
    ...log.violations,
    ...checkExchanges(log),
    ...checkProviderCalls(calls, log),
    ...checkConnections(unaffected, killedAt),
    ...(orderly ? checkFarewells(unaffected) : []),
    ...checkAnswers(conversations, log, logFailures),
    ...checkContents(conversations.filter(({ answer }) => answer.status !== 503 || !metFailure(answer, logFailures))),
    ...checkNotMadeTwice(log),
    ...checkOriginalValues(calls),
    ...checkGuardedExchanges(log, workflows),
    ...checkStoredPlaceholders(log),
    ...checkPromises(promises, given),
    ...checkCachedExchanges(log),
    ...checkCachedAnswers(conversations, log),
    ...checkReplacedWords(calls),
    ...checkPluginExchanges(log),
    ...checkPluginAnswers(conversations),
    ...(await checkResponses(responses, deleted, log, retrieve)),
  ];
}

/** While the gateway lives, every request gets an answer, and every answer its end. */
function checkConnections(conversations: readonly Conversation[], killedAt: number): Violation[] {
  return conversations
    .filter(({ answer }) => answer.end === 'cut' && answer.endedAt < killedAt)
    .map(({ request, answer }) => ({
      check: 'connections',
      what: `${request.method} ${request.path} (${request.requestId}): the connection broke after ${answer.body.length} bytes, before the gateway was killed`,
    }));
}

/**
 * An orderly stop ends every answer that it has begun, if need be with an error. Passthrough has no error to end with:
 * its answers may be cut off.
 */
function checkFarewells(conversations: readonly Conversation[]): Violation[] {
  return conversations
    .filter(
      ({ request, answer }) => answer.end === 'cut' && answer.status !== undefined && request.route !== 'passthrough',
    )
    .map(({ request, answer }) => ({
      check: 'orderly stop',
      what: `${request.method} ${request.path} (exchange ${answer.headers['x-exchange-id']}): the connection broke after ${answer.body.length} bytes`,
    }));
}
