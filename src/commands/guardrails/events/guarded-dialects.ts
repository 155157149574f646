/** The events of a streamed answer by dialect. */
import type { TextPhase } from '../phases/text-phase.ts';
import type { Placeholders } from '../placeholders.ts';
import { GuardedChatEvents } from './chat-events.ts';
import type { GuardedEvents } from './guarded-events.ts';
import { GuardedMessagesEvents } from './messages-events.ts';
import { GuardedResponsesEvents } from './responses-events.ts';

export type StreamDialect = 'chat' | 'completions' | 'messages' | 'responses';

export function guardedEvents(dialect: StreamDialect, phase: TextPhase, placeholders: Placeholders): GuardedEvents {
  if (dialect === 'responses') return new GuardedResponsesEvents(phase, placeholders);
  if (dialect === 'messages') return new GuardedMessagesEvents(phase, placeholders);
  return new GuardedChatEvents(phase, placeholders);
}
