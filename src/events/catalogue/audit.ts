/** The audit family: reads of recorded bodies and queries of analysts, on stream `audit-reads`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const auditRead = defineEvent({
  type: 'audit.read',
  when: 'An administrator is about to be given recorded bodies that are not their own, or a query of an analyst is about to run: one event per request, connection or query.',
  data: z.object({
    what: z
      .enum([
        'live_previews',
        'live_events',
        'response',
        'response_input_items',
        'response_stream',
        'conversation_items',
        'file',
        'file_content',
        'file_list',
        'batch',
        'batch_list',
        'audit_entry',
        'audit_conversation',
        'audit_export',
        'sql',
      ])
      .describe('the live tail, by its view, or what was read by its id, or the kind of question'),
    id: z.string().optional().describe('of what was read; absent for the live tail and for questions'),
    owner: z.string().optional().describe('the actor whose bodies they are; absent as well'),
    ownerPath: z.string().optional().describe('the user path they are recorded under'),
    filter: z
      .record(z.string(), z.string())
      .optional()
      .describe('how the live tail was narrowed, or what was asked: the filter of an export, the text of a query'),
    clickhouseUser: z
      .string()
      .optional()
      .describe('the user of the ClickHouse interface who sent the query; absent for other reads'),
  }),
});
