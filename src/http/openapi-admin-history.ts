/** OpenAPI operations of the admin history and of explained decisions. */
import { z } from 'zod';
import { json, type Operation, query } from './openapi-operation.ts';

const explanation = z.object({
  allowed: z.boolean(),
  model: z.string(),
  user_path: z.string().nullable(),
  key: z.string().nullable(),
  as_of: z.object({ position: z.string(), at: z.iso.datetime() }).nullable(),
  resolved: z.array(z.object({ selector: z.string(), through: z.array(z.string()), allowed: z.boolean() })),
  steps: z.array(
    z.object({
      check: z.enum(['key is accepted', 'virtual model', 'model policy', 'key', 'user path']),
      subject: z.string(),
      target: z.string().optional().describe('the one of `resolved` that it is about; absent: all of them'),
      allowed: z.boolean(),
      list: z.array(z.string()).optional().describe('the list that was looked into'),
      reason: z.string().optional(),
      source: z.enum(['event', 'config', 'default']),
      event: z
        .object({
          position: z.string(),
          revision: z.string(),
          at: z.iso.datetime(),
          actor: z.string(),
          type: z.string(),
        })
        .nullable()
        .describe('the one that set what decides'),
    }),
  ),
});

export const adminHistoryOperations: readonly Operation[] = [
  {
    operationId: 'adminExplain',
    methods: ['GET'],
    path: '/admin/explain',
    summary: 'Whether a model may be used, and which event says so',
    description:
      'Decided by the very authorizer that inference uses, over what administrators had set then. Which models there are, and what the configuration declares, is that of now.',
    tag: 'admin',
    parameters: [
      query('model', 'As a client would write it; it must be there'),
      query('provider', "A provider's name or type, as the request's `provider` member"),
      query('key', 'The id or the name of a managed key; a key that is bound to a path is used there'),
      query('user_path', 'A user path; of an administrator of a subtree, its root when absent'),
      query('as_of', 'As it was at that moment: a time with its zone, or a position of the log'),
    ],
    success: { description: 'The answer, question by question', content: json(explanation) },
    errors: [400, 401, 403, 404],
  },
];
