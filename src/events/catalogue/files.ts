/** Files and batches that a provider stores under its own ids, on streams `file-<id>` and `batch-<id>`. */
import { z } from 'zod';
import { createdBy } from './creator.ts';
import { defineEvent } from './define.ts';

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
