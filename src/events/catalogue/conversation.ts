/** The conversation family: a list of items that several responses share, on stream `conversation-<id>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const metadata = z.record(z.string(), z.string());

export const conversationCreated = defineEvent({
  type: 'conversation.created',
  when: 'A client created a conversation; it belongs to the user path of this event.',
  data: z.object({ createdAt: z.number().int().describe('Unix seconds'), metadata }),
});

export const conversationItemsAdded = defineEvent({
  type: 'conversation.items_added',
  when: 'Items were appended to the conversation: by a client, or as the turn of a response that succeeded.',
  body: 'JSON array of the items, normalised, each with its id; an item whose id exists already changes nothing',
  data: z.object({
    itemIds: z.array(z.string()),
    responseId: z.string().optional().describe('the response whose input and output are added'),
    exchangeId: z.string().optional(),
  }),
});

export const conversationPlaceholdersAssigned = defineEvent({
  type: 'conversation.placeholders_assigned',
  when: 'Guardrails kept values of a turn from the provider. The same values get the same placeholders in later turns.',
  body: 'JSON array of `{"placeholder": …, "value": …}`, without those of earlier turns',
  data: z.object({ count: z.number().int().min(1) }),
});

export const conversationItemDeleted = defineEvent({
  type: 'conversation.item_deleted',
  when: 'A client deleted one item; it is neither served nor replayed any more.',
  data: z.object({ itemId: z.string() }),
});

export const conversationMetadataUpdated = defineEvent({
  type: 'conversation.metadata_updated',
  when: 'A client changed the metadata of the conversation.',
  data: z.object({ metadata: metadata.describe('the complete metadata after the change') }),
});

export const conversationDeleted = defineEvent({
  type: 'conversation.deleted',
  when: 'A client deleted the conversation; later events of its stream have no effect.',
  data: z.object({}),
});
