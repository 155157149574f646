/** The audit family: reads of recorded bodies and queries of analysts, on stream `audit-reads`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const auditRead = defineEvent({
  type: 'audit.read',
  when: "The gateway is about to send recorded bodies of another actor to an administrator, or to run an analyst's query: one event per request, connection or query.",
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
        'audit_events',
        'audit_provider_request',
        'audit_export',
        'sql',
      ])
      .describe('the view of the live tail, the kind of object that was read, or the kind of query'),
    id: z.string().optional().describe('of the object that was read; absent for the live tail and for queries'),
    owner: z.string().optional().describe('the actor who owns the bodies; absent for the live tail and for queries'),
    ownerPath: z.string().optional().describe('the user path of the recorded bodies'),
    filter: z
      .record(z.string(), z.string())
      .optional()
      .describe('the filter of the live tail or of an export, or the text of a query'),
    clickhouseUser: z
      .string()
      .optional()
      .describe('the user of the ClickHouse interface who sent the query; absent for other reads'),
  }),
});
