/**
 * The workflow family: the features and guardrails of the requests of one scope, on streams `workflow-<scope>`. The
 * scope in the name is `global`, `path:<path>`, `provider:<name>`, `provider_path:<name>:<path>`,
 * `provider_model:<name>:<model>` or `provider_model_path:<name>:<model>:<path>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

/** What a workflow can turn off. */
export const workflowFeatures = ['cache', 'audit', 'usage', 'budget', 'guardrails', 'failover'] as const;

/** Requests that share cached answers: those of the same user path, of the same key, or all of the workflow. */
export const cacheScopes = ['user_path', 'key', 'shared'] as const;

/** When a guardrail runs. */
export const workflowPhases = ['prompt', 'response', 'stream'] as const;

const ref = z.string().describe('the name of a guardrail');
const step = z.number().int().min(0).describe('steps run in ascending order, guardrails of one step at the same time');

export const workflowCreated = defineEvent({
  type: 'workflow.created',
  when:
    'A version of a workflow was created and became the active one of its scope; it replaces the version that was ' +
    'active before. Versions are never changed.',
  data: z.object({
    id: z.string().describe('of the version, a UUID'),
    scope: z
      .object({
        provider: z.string().optional(),
        model: z.string().optional().describe("the provider's own id"),
        userPath: z.string().optional(),
      })
      .describe('the requests that it is for; without members: all'),
    version: z.number().int().min(1).describe('counts the versions of the scope'),
    name: z.string(),
    description: z.string().optional(),
    managedDefault: z
      .literal(true)
      .optional()
      .describe('the gateway created it, for the requests of no other workflow'),
    payload: z.object({
      schemaVersion: z.union([z.literal(1), z.literal(2)]),
      features: z.object({
        cache: z.boolean(),
        audit: z.boolean(),
        usage: z.boolean(),
        budget: z.boolean(),
        guardrails: z.boolean(),
        failover: z.boolean(),
      }),
      guardrails: z
        .array(z.object({ ref, step }))
        .readonly()
        .optional()
        .describe('of version 1: all in the prompt phase'),
      steps: z
        .array(z.object({ ref, phase: z.enum(workflowPhases), step }))
        .readonly()
        .optional()
        .describe('of version 2, sorted by phase, step and name'),
      cache: z
        .object({
          scope: z.enum(cacheScopes),
          ttlSeconds: z.number().int().min(1).optional().describe('seconds for which an answer may be served again'),
          toolCalls: z.boolean().optional().describe('whether answers that call tools are kept'),
        })
        .optional()
        .describe('of version 2: what the response cache does with answers of this workflow'),
    }),
    payloadSha256: z.string().describe('of the canonical JSON of the payload, hexadecimal'),
    supersedes: z.string().optional().describe('id of the version that was active before'),
  }),
});

export const workflowDeactivated = defineEvent({
  type: 'workflow.deactivated',
  when: 'An administrator deactivated the active version of a scope, which has no workflow of its own from then on.',
  data: z.object({ id: z.string() }),
});
