/** Bodies of events that are only in the log: values that guardrails kept from providers, those of earlier turns included. */

import { placeholdersAssigned } from '../events/catalogue/guardrail.ts';
import { conversationPlaceholdersAssigned } from '../events/catalogue/response.ts';
import type { RecordedEvent } from '../events/event.ts';

const withheld: ReadonlySet<string> = new Set([placeholdersAssigned.type, conversationPlaceholdersAssigned.type]);

export function isBodyWithheld({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return withheld.has(type);
}
