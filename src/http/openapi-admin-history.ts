/** OpenAPI operations of the admin history and of explained decisions. */
import { z } from 'zod';
import { json, type Operation, query } from './openapi-operation.ts';

const value = z.record(z.string(), z.unknown()).nullable();

const change = z.object({
  position: z.string().describe('its place in the log: what `before`, `after` and `as_of` take'),
  revision: z.string().describe('its place among the changes of its subject'),
  at: z.iso.datetime(),
  actor: z.string().describe('`master`, `key:<id>` or `system`'),
  user_path: z.string().nullable().describe('of who did it'),
  request_id: z.string().nullable(),
  subject: z.string(),
  type: z.string(),
  before: value.describe('secrets masked; null when it was not there'),
  after: value,
  changed: z.array(z.string()),
});

const history = z.object({ entries: z.array(change), limit: z.int(), has_more: z.boolean() });

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
    operationId: 'adminHistory',
    methods: ['GET'],
    path: '/admin/history',
    summary: 'Who changed what, when, from what to what',
    description:
      'Newest first, but with `after` alone the page begins there. An administrator of a subtree names a `subject` within it.',
    tag: 'admin',
    parameters: [
      query(
        'subject',
        'One thing: `key:<id>`, `user:<path>`, `virtual-model:<source>`, `price:<selector>`, `budget:<path>`, `rate-limit:<scope>:<subject>`, `credential:<name>`, `settings:<name>`, `provider:<name>`, `audit:reads`. Absent: everything',
      ),
      query('limit', 'At most 200', z.int().min(1).max(200).default(50)),
      query('before', 'Only what is older than this position'),
      query('after', 'Only what is newer than this position'),
      query('start', 'Only from this time on'),
      query('end', 'Only up to this time'),
    ],
    success: { description: 'A page of changes', content: json(history) },
    errors: [400, 401, 403, 404],
  },
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
