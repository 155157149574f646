/** Bodies of events that are only in the log: values that guardrails kept from providers, those of earlier turns included. */
import { conversationPlaceholdersAssigned } from '../events/catalogue/conversation.ts';
import { placeholdersAssigned } from '../events/catalogue/guarded-exchange.ts';
import type { RecordedEvent } from '../events/event.ts';

const withheld: ReadonlySet<string> = new Set([placeholdersAssigned.type, conversationPlaceholdersAssigned.type]);

export function isBodyWithheld({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return withheld.has(type);
}
