/** Workflows as the admin API returns them. */
import { z } from 'zod';
import type { ChainStep, CompiledWorkflow } from '../../../commands/workflows/chains.ts';
import type { RecordedVersion } from '../../../commands/workflows/changes.ts';
import type { WorkflowExplanation } from '../../../commands/workflows/directory.ts';
import {
  payloadJson,
  scopeDisplay,
  scopeKey,
  scopeType,
  type WorkflowScope,
} from '../../../commands/workflows/workflow.ts';
import { timeText } from '../../dates.ts';

const scope = z.object({
  scope_provider_name: z.string().optional(),
  scope_model: z.string().optional(),
  scope_user_path: z.string().optional(),
});

export const features = z.object({
  cache: z.boolean(),
  audit: z.boolean(),
  usage: z.boolean(),
  budget: z.boolean(),
  guardrails: z.boolean(),
  failover: z.boolean(),
});

const phase = z.enum(['prompt', 'response', 'stream']);

const payload = z.object({
  schema_version: z.union([z.literal(1), z.literal(2)]),
  features,
  guardrails: z
    .array(z.object({ ref: z.string(), step: z.number().int() }))
    .readonly()
    .optional()
    .describe('of version 1'),
  steps: z
    .array(z.object({ ref: z.string(), phase, step: z.number().int() }))
    .readonly()
    .optional()
    .describe('of version 2'),
  cache: z
    .object({
      scope: z.enum(['user_path', 'key', 'shared']),
      ttl_seconds: z.number().int().optional(),
      tool_calls: z.boolean().optional(),
    })
    .optional()
    .describe('of version 2'),
  headers: z
    .object({
      pass: z.array(z.string()).readonly().optional(),
      set: z.record(z.string(), z.string()).readonly().optional(),
      remove: z.array(z.string()).readonly().optional(),
    })
    .optional()
    .describe('of version 2: headers of requests to providers'),
});

const common = {
  id: z.string(),
  scope,
  version: z.number().int(),
  active: z.boolean(),
  managed_default: z.literal(true).optional(),
  name: z.string(),
  description: z.string().optional(),
  workflow_payload: payload,
  workflow_hash: z.string().describe('SHA-256 of the canonical JSON of `workflow_payload`'),
  created_at: z.string(),
  revision: z.string().optional().describe('of the active version of a scope, for `If-Match`'),
};

const chainHashes = z
  .object({ prompt: z.string().optional(), response: z.string().optional(), stream: z.string().optional() })
  .optional();

/** A row of `GET /admin/workflows/{id}/versions`. */
export const workflowVersionRow = z.object({ ...common, scope_key: z.string() });

/** The answer of `POST /admin/workflows`. */
export const newWorkflowRow = workflowVersionRow.extend({ chain_hashes: chainHashes });

/** A row of `GET /admin/workflows`, and the answer of `GET /admin/workflows/{id}`. */
export const workflowRow = z.object({
  ...common,
  scope_type: z.enum(['global', 'provider', 'provider_model', 'path', 'provider_path', 'provider_model_path']),
  scope_display: z.string(),
  effective_features: features.describe('the features that the configuration of the process does not turn off'),
  guardrails_hash: z.string().optional().describe('of the prompt phase'),
  chain_hashes: chainHashes,
  compile_error: z.string().optional().describe('why its guardrails cannot run; its requests are refused'),
});

const explainedChain = z.array(
  z.object({
    step: z.number().int().describe('guardrails of one step run at the same time'),
    name: z.string(),
    type: z.string(),
  }),
);

/** The `workflow` member of `GET /admin/explain`. */
export const explainedWorkflow = z.object({
  matching: z
    .object({
      id: z.string(),
      version: z.number().int(),
      name: z.string(),
      scope: z.string(),
      features,
      guardrails: z
        .object({ prompt: explainedChain, response: explainedChain, stream: explainedChain })
        .optional()
        .describe('the guardrails of each phase in the order in which they run; absent when none run'),
      compile_error: z.string().optional().describe('why its guardrails cannot run; its requests are refused'),
    })
    .nullable(),
  others: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      scope: z.string(),
      scope_type: z.string(),
      reason: z.enum(['other user path', 'other provider', 'other model', 'less specific']),
    }),
  ),
  omitted: z.number().int().describe('further workflows that do not match'),
});

/** @param revision of the version in force; undefined for another one */
export function workflowVersionRowOf(
  recorded: RecordedVersion,
  revision: number | undefined,
): z.infer<typeof workflowVersionRow> {
  return { ...commonMembers(recorded, revision), scope_key: scopeKey(recorded.workflow.scope) };
}

export function newWorkflowRowOf(
  recorded: RecordedVersion,
  revision: number | undefined,
  compiled: CompiledWorkflow,
): z.infer<typeof newWorkflowRow> {
  return { ...workflowVersionRowOf(recorded, revision), ...chainMembersOf(compiled) };
}

function chainMembersOf({ chainHashes: hashes }: CompiledWorkflow) {
  const isGuarded = Object.values(hashes).some((one) => one !== undefined);
  return isGuarded ? { chain_hashes: hashes } : {};
}

/** @param revision of the version in force; undefined for another one */
export function workflowRowOf(
  compiled: CompiledWorkflow,
  { createdAt, revision }: { readonly createdAt: number; readonly revision: number | undefined },
): z.infer<typeof workflowRow> {
  const { workflow, effective, problem } = compiled;
  const { prompt } = compiled.chainHashes;
  return {
    ...commonMembers({ workflow, createdAt }, revision),
    scope_type: scopeType(workflow.scope),
    scope_display: scopeDisplay(workflow.scope),
    effective_features: effective,
    ...(prompt === undefined ? {} : { guardrails_hash: prompt }),
    ...chainMembersOf(compiled),
    ...(problem === undefined ? {} : { compile_error: problem }),
  };
}

export function explainedWorkflowOf({
  matching,
  others,
  omitted,
}: WorkflowExplanation): z.infer<typeof explainedWorkflow> {
  return {
    matching: matching === undefined ? null : matchingMembers(matching),
    others: others.map(({ scopeType, ...other }) => ({ ...other, scope_type: scopeType })),
    omitted,
  };
}

function matchingMembers({ workflow, effective, chains, problem }: CompiledWorkflow) {
  return {
    id: workflow.id,
    version: workflow.version,
    name: workflow.name,
    scope: scopeDisplay(workflow.scope),
    features: effective,
    ...(chains === undefined
      ? {}
      : {
          guardrails: {
            prompt: chainMembers(chains.prompt),
            response: chainMembers(chains.response),
            stream: chainMembers(chains.stream),
          },
        }),
    ...(problem === undefined ? {} : { compile_error: problem }),
  };
}

function chainMembers(steps: readonly ChainStep[]): z.infer<typeof explainedChain> {
  return steps.flatMap(({ step, guardrails }) =>
    guardrails.map(({ definition }) => ({ step, name: definition.name, type: definition.type })),
  );
}

function commonMembers({ workflow, createdAt }: RecordedVersion, revision: number | undefined) {
  const { id, scope, version, managedDefault, name, description, payload, payloadSha256 } = workflow;
  return {
    id,
    scope: scopeMembers(scope),
    version,
    active: revision !== undefined,
    ...(managedDefault === undefined ? {} : { managed_default: managedDefault }),
    name,
    ...(description === undefined ? {} : { description }),
    workflow_payload: payloadJson(payload),
    workflow_hash: payloadSha256,
    created_at: timeText(createdAt),
    ...(revision === undefined ? {} : { revision: String(revision) }),
  };
}

function scopeMembers({ provider, model, userPath }: WorkflowScope): z.infer<typeof scope> {
  return {
    ...(provider === undefined ? {} : { scope_provider_name: provider }),
    ...(model === undefined ? {} : { scope_model: model }),
    ...(userPath === undefined ? {} : { scope_user_path: userPath }),
  };
}
