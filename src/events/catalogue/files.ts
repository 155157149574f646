/** Files and batches that a provider keeps under ids of its own, on streams `file-<id>` and `batch-<id>`. */
import { z } from 'zod';
import { createdBy } from './creator.ts';
import { defineEvent } from './define.ts';

const held = z.object({
  provider: z.string().describe('who has it'),
  providerType: z.string(),
  exchangeId: z.string().optional().describe('the exchange that made it; absent for what a batch made'),
  createdBy,
});

const heldBatch = held.extend({
  dialect: z.literal('messages').optional().describe('made by `/v1/messages/batches`; absent: by `/v1/batches`'),
});

export const fileTracked = defineEvent({
  type: 'file.tracked',
  when: 'A provider took a file, or made one as the result of a batch: later requests for it go there.',
  data: held,
});

export const fileDeleted = defineEvent({
  type: 'file.deleted',
  when: 'A client had the file deleted at its provider.',
  data: z.object({}),
});

export const batchTracked = defineEvent({
  type: 'batch.tracked',
  when: 'A provider took a batch: later requests for it go there.',
  data: heldBatch,
});

export const batchDeleted = defineEvent({
  type: 'batch.deleted',
  when: 'A client deleted a batch of messages that was over.',
  data: z.object({}),
});
