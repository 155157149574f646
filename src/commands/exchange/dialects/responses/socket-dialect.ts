/** The Responses dialect of one WebSocket: its turns continue what the socket remembers, else what is stored. */

import { responseUsage } from '../../../../providers/translate/chat-to-responses/stream.ts';
import { refusals } from '../../../refusal.ts';
import type { ResponseArchive } from '../../../responses/archive.ts';
import { responseIdOf } from '../../../responses/create-request.ts';
import type { SocketMemory } from '../../../responses/socket-memory.ts';
import type { ExchangeDialect, PastAttempt } from '../../dialect.ts';
import type { GivenAnswer } from '../../response-stream.ts';
import { loadEarlierTurns, type Stored } from './earlier-turns.ts';
import { shellOf } from './responses-dialect.ts';

/** @param generate false: the turn is kept, and no provider is called */
export function socketDialect(
  dialect: ExchangeDialect,
  memory: SocketMemory,
  { archive, log }: Stored,
  generate: boolean,
): ExchangeDialect {
  const remembered: ResponseArchive = {
    find: async (id, visibility) => memory.find(id, visibility) ?? archive.find(id, visibility),
    mayBeOnlyAtProvider: archive.mayBeOnlyAtProvider,
  };
  return {
    ...dialect,
    loadHistory: (input) =>
      loadEarlierTurns(input, { archive: remembered, log })?.then((turns) => {
        if (turns.kind !== 'response') return turns;
        // No provider is called that could find it.
        if (!generate && turns.head === undefined) throw refusals.previousResponseNotFound(turns.previousId);
        return memory.isEmpty ? turns : { ...turns, isRemembered: true };
      }),
    remember: (response) => memory.keep(response),
    ...(!generate && { answerWithoutProvider: () => (past) => withoutOutput(dialect, past) }),
  };
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
