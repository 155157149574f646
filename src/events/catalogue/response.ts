/**
 * The response family: a stored Responses API object, on stream `response-<id>`. Requests to another gateway are on
 * `cancellation-<id>`.
 * The item family: the response or conversation that holds an item, on stream `item-<id of the item>`.
 * The conversation family: a list of items that several responses share, on stream `conversation-<id>`.
 * The idempotency family: claims of idempotency keys, on stream `idempotency-<digest of caller, route and key>`.
 * The approval family: uses of the approvals of calls of tools, on stream `tool_approval-<id of the approval request>`.
 * Files and batches that a provider stores under its own ids, on streams `file-<id>` and `batch-<id>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

/** The creator of a stored object, in events that another actor may cause: a restart, an administrator's request. */
export const createdBy = z
  .enum(['master', 'system'])
  .or(z.templateLiteral(['key:', z.string()]))
  .optional()
  .describe('the actor who created the object; absent when it is the actor of this event');

export const responseStored = defineEvent({
  type: 'response.stored',
  when: 'A response reached a state that is stored; the newest event of the stream is the snapshot.',
  body:
    'JSON `{"response": …, "input_items": […]}`: the client\'s response and the client\'s input, normalised; with ' +
    '`placeholders`, an array of `{"placeholder": …, "value": …}`, when guardrails kept values from the provider',
  data: z.object({
    status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    exchangeId: z.string(),
    provider: z.string(),
    providerType: z.string(),
    model: z.string(),
    native: z.boolean().describe('whether the provider stores this response too, under the same id'),
    previousResponseId: z.string().nullable(),
    createdBy,
  }),
});

export const responseDeleted = defineEvent({
  type: 'response.deleted',
  when: 'A client deleted the response; it is no longer served, and neither is the cached answer that it was or had.',
  data: z.object({
    cached: z
      .object({ digest: z.string(), exchangeId: z.string().describe('the exchange that a provider answered') })
      .optional()
      .describe('the answer of the response cache that is no longer served; absent when it was not cached'),
  }),
});

export const responseCancelRequested = defineEvent({
  type: 'response.cancel_requested',
  when: 'A client cancelled or deleted a background response that another gateway generates, through this gateway.',
  data: z.object({}),
});

export const toolApprovalUsed = defineEvent({
  type: 'tool_approval.used',
  when:
    "The client approved a call of a tool of the gateway's MCP servers, and the gateway is about to make it: it makes " +
    'no second call on this approval, not even after a crash. Or the client did not approve it: then it is never made.',
  data: z.object({
    exchangeId: z.string().describe('the exchange that makes the call, or in which it was not approved'),
    approved: z.literal(false).optional().describe('false: the client did not approve the call'),
  }),
});

export const itemStored = defineEvent({
  type: 'item.stored',
  when:
    'An item whose id does not contain the id of its response was stored, in the same append as its holder. ' +
    'The user path is that of the holder.',
  data: z.object({
    holder: z.enum(['response', 'conversation']),
    holderId: z.string(),
    createdBy: createdBy.describe('the actor who created the holder; absent when it is the actor of this event'),
  }),
});

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

export const idempotencyKeyClaimed = defineEvent({
  type: 'idempotency.key_claimed',
  when: 'A request with an `Idempotency-Key` began; the newest claim of the stream holds for 24 hours.',
  data: z.object({
    exchangeId: z.string(),
    requestDigest: z.string().describe('SHA-256 of the request body: another body with the same key is refused'),
  }),
});

const held = z.object({
  provider: z.string().describe('the provider that has it'),
  providerType: z.string(),
  exchangeId: z.string().optional().describe('the exchange that created it; absent for files that a batch created'),
  createdBy,
});

const heldBatch = held.extend({
  dialect: z.literal('messages').optional().describe('made by `/v1/messages/batches`; absent: by `/v1/batches`'),
});

export const fileTracked = defineEvent({
  type: 'file.tracked',
  when: 'A provider accepted a file, or created one as the result of a batch: later requests for it go to that provider.',
  data: held,
});

export const fileDeleted = defineEvent({
  type: 'file.deleted',
  when: 'A client deleted the file at its provider.',
  data: z.object({}),
});

export const batchTracked = defineEvent({
  type: 'batch.tracked',
  when: 'A provider accepted a batch: later requests for it go to that provider.',
  data: heldBatch,
});

export const batchDeleted = defineEvent({
  type: 'batch.deleted',
  when: 'A client deleted a batch of messages that had ended.',
  data: z.object({}),
});
