/** The Responses dialect of one WebSocket: its turns continue what the socket remembers, else what is stored. */

import { ProviderFailure } from '../../../../providers/provider.ts';
import { responseUsage } from '../../../../providers/translate/chat-to-responses/stream.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import type { ResponseArchive } from '../../../responses/archive.ts';
import { responseIdOf } from '../../../responses/create-request.ts';
import type { SocketMemory, Steering } from '../../../responses/socket-memory.ts';
import type { ExchangeDialect, PastAttempt, PlanInput } from '../../dialect.ts';
import { isMade, type Plan } from '../../plan.ts';
import type { AnswerStream, GivenAnswer } from '../../response-stream.ts';
import { loadEarlierTurns, type Stored } from './earlier-turns.ts';
import { shellOf } from './responses-dialect.ts';

interface SocketDialectOptions extends Stored {
  /** Whether providers that have WebSockets are called on them. */
  readonly callsOnSockets: boolean;
}

/** @param generate false: the turn is kept, and no provider is called */
export function socketDialect(
  dialect: ExchangeDialect,
  memory: SocketMemory,
  { archive, log, callsOnSockets }: SocketDialectOptions,
  generate: boolean,
): ExchangeDialect {
  const remembered: ResponseArchive = {
    find: async (id, visibility) => memory.find(id, visibility) ?? archive.find(id, visibility),
    mayBeOnlyAtProvider: archive.mayBeOnlyAtProvider,
  };
  return {
    ...dialect,
    loadHistory: (input) =>
      loadEarlierTurns(input, { archive: remembered, log })?.then(async (turns) => {
        if (turns.kind !== 'response') return turns;
        // Other turns check it when it is sent, and no provider is called that could find what is not stored here.
        if (!generate) await turns.chain();
        return memory.isEmpty ? turns : { ...turns, isRemembered: true };
      }),
    ...(callsOnSockets && { plan: (input) => planOnSocket(dialect, input, memory.whileOpen) }),
    remember: (response) => memory.keep(response),
    ...(!generate && { alwaysCounts: true, answerWithoutProvider: () => (past) => withoutOutput(dialect, past) }),
  };
}

/**
 * The plan on the provider's WebSocket of this client. Its memory may have the previous response also where that is not
 * stored; what it has lost is sent over HTTP, with the turns before.
 */
async function planOnSocket(
  dialect: ExchangeDialect,
  input: PlanInput,
  client: AbortSignal,
): Promise<Plan<AnswerStream>> {
  const { history, target } = input;
  let continues: string | undefined;
  let planned = input;
  if (history?.kind === 'response' && history.head !== undefined && !history.head.native) {
    const { head, previousId } = history;
    if (target.provider.remembers(client, previousId)) {
      continues = previousId;
      planned = { ...input, history: { ...history, head: { ...head, native: true } } };
    }
  }
  const plan = await dialect.plan(planned);
  if (plan.kind !== 'model' || plan.dialect !== 'responses' || isMade(plan)) return plan;
  return {
    ...plan,
    socket: { client, continues },
    instead(refusal) {
      const isLost = continues !== undefined && refusal.code === 'previous_response_not_found';
      if (isLost || isDisconnected(refusal)) return Promise.resolve(dialect.plan(input));
      return plan.instead?.(refusal);
    },
  };
}

/** The dialect of input for a response that runs on a WebSocket of its provider: a request for the response after it. */
export function steeringDialect(dialect: ExchangeDialect, memory: SocketMemory, steers: Steering): ExchangeDialect {
  const { whileOpen: client } = memory;
  return {
    ...dialect,
    // The provider has the turns before.
    loadHistory: () => undefined,
    remember: (response) => memory.keep(response),
    async plan(input) {
      if (!input.target.provider.canSteer(client, steers.responseId)) throw refusals.steeringNotSupported();
      const plan = await dialect.plan(input);
      if (plan.kind !== 'model' || plan.dialect !== 'responses') throw refusals.steeringNotSupported();
      return { ...plan, socket: { client, steers }, instead: () => undefined };
    },
  };
}

function isDisconnected({ cause }: Refusal): boolean {
  return cause instanceof ProviderFailure && cause.kind === 'disconnected';
}

function withoutOutput(dialect: ExchangeDialect, past: PastAttempt): GivenAnswer {
  const { parsedRequest, exchangeId, createdAt, model, provider } = past;
  const begun = shellOf(parsedRequest, { id: responseIdOf(exchangeId), createdAt, model, provider: provider.name });
  const whole = { ...begun, status: 'completed', completed_at: createdAt, usage: responseUsage({}) };
  return {
    stream: dialect.streamOfRecorded({ ...past, dialect: 'responses' }),
    whole,
    events: [
      { type: 'response.created', sequence_number: 0, response: begun },
      { type: 'response.in_progress', sequence_number: 1, response: begun },
      { type: 'response.completed', sequence_number: 2, response: whole },
    ],
  };
}
