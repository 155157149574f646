/** The body of `POST /admin/workflows`. */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import type { CacheInput, PayloadInput, WorkflowInput } from '../../commands/workflows/workflow-input.ts';
import { optionalUserPath } from '../request-head.ts';

const features = z.strictObject({
  cache: z.boolean(),
  audit: z.boolean(),
  usage: z.boolean(),
  budget: z.boolean().nullish().describe('default: true; without effect while `usage` is false'),
  guardrails: z.boolean(),
  failover: z.boolean().nullish().describe('default: true'),
  fallback: z.boolean().nullish().describe('former name of `failover`'),
});

const step = z.number().nullish().describe('default: 0; guardrails of one step run at the same time');

const payload = z.strictObject({
  schema_version: z.number().nullish().describe('1 or 2; default: 2, or 1 when there are only `guardrails`'),
  features,
  guardrails: z
    .array(z.strictObject({ ref: z.string(), step }))
    .nullish()
    .describe('guardrails of the prompt phase; the only ones in version 1'),
  steps: z
    .array(z.strictObject({ ref: z.string(), phase: z.string().nullish().describe('default: `prompt`'), step }))
    .nullish(),
  cache: z
    .strictObject({
      scope: z
        .string()
        .nullish()
        .describe('who shares answers: `user_path` (default), `key`, or `shared` for all requests of the workflow'),
      ttl_seconds: z.number().nullish().describe('default: RESPONSE_CACHE_TTL; at most RESPONSE_CACHE_MAX_TTL'),
      tool_calls: z.boolean().nullish().describe('keep answers that call tools too; default: false'),
    })
    .nullish()
    .describe('of version 2'),
});

export const workflowBody = z.strictObject({
  scope_provider_name: z.string().nullish().describe('a provider instance, or a provider type'),
  scope_provider: z.string().nullish().describe('former name of `scope_provider_name`'),
  scope_model: z.string().nullish(),
  scope_user_path: z.string().nullish(),
  name: z.string(),
  description: z.string().nullish(),
  workflow_payload: payload,
});

/** @throws Refusal 400 */
export function workflowInput(body: z.infer<typeof workflowBody>): WorkflowInput {
  return {
    provider: either(body.scope_provider_name, { value: body.scope_provider, param: 'scope_provider' }) || undefined,
    model: body.scope_model || undefined,
    userPath: optionalUserPath(body.scope_user_path, 'scope_user_path'),
    name: body.name,
    description: body.description ?? undefined,
    payload: payloadInput(body.workflow_payload),
  };
}

/** @throws Refusal 400 */
function payloadInput({
  schema_version,
  features,
  guardrails,
  steps,
  cache: settings,
}: z.infer<typeof payload>): PayloadInput {
  const { cache, audit, usage, guardrails: checks, budget } = features;
  return {
    schemaVersion: schema_version ?? undefined,
    features: {
      cache,
      audit,
      usage,
      budget: budget ?? true,
      guardrails: checks,
      failover:
        either(features.failover, { value: features.fallback, param: 'workflow_payload.features.fallback' }) ?? true,
    },
    guardrails: guardrails?.map(({ ref, step }) => ({ ref, step: step ?? undefined })),
    steps: steps?.map(({ ref, phase, step }) => ({ ref, phase: phase ?? undefined, step: step ?? undefined })),
    cache: settings == null ? undefined : cacheInput(settings),
  };
}

function cacheInput({ scope, ttl_seconds, tool_calls }: NonNullable<z.infer<typeof payload>['cache']>): CacheInput {
  return { scope: scope ?? undefined, ttlSeconds: ttl_seconds ?? undefined, toolCalls: tool_calls ?? undefined };
}

/** The value under its name or its former name. @throws Refusal 400 when both are there and differ */
function either<Value>(
  value: Value | null | undefined,
  former: { readonly value: Value | null | undefined; readonly param: string },
): Value | undefined {
  const other = former.value ?? undefined;
  if (value == null) return other;
  if (other === undefined || other === value) return value;
  throw refusals.invalidRequest(
    `'${former.param}' is a former name, and differs from the value under the new one.`,
    former.param,
  );
}
