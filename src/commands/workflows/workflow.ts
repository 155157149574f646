/** A workflow: the features and the guardrails of the requests of one scope. Its versions are never changed. */
import type { z } from 'zod';
import { type workflowCreated, type workflowFeatures, workflowPhases } from '../../events/catalogue/workflow.ts';
import { type StreamName, streamName } from '../../events/event.ts';
import type { GuardrailPhase } from '../guardrails/guardrail-type.ts';

export type WorkflowFeature = (typeof workflowFeatures)[number];
export type WorkflowFeatures = Readonly<Record<WorkflowFeature, boolean>>;

export interface WorkflowStep {
  /** The name of a guardrail. */
  readonly ref: string;
  readonly phase: GuardrailPhase;
  /** Steps run in ascending order, the guardrails of one step at the same time. */
  readonly step: number;
}

/** In the form in which it was sent: version 1 has `guardrails`, version 2 `steps`. */
export type WorkflowPayload = z.infer<typeof workflowCreated.data>['payload'];

/** A workflow before it has an id and a version. */
export interface WorkflowDraft {
  readonly scope: WorkflowScope;
  readonly name: string;
  readonly description?: string | undefined;
  readonly payload: WorkflowPayload;
}

/** A version of the workflow of a scope. */
export type WorkflowVersion = z.infer<typeof workflowCreated.data>;

/** The steps of the payload, whatever its version, sorted by phase, step and name. */
export function stepsOf({ guardrails = [], steps = [] }: WorkflowPayload): readonly WorkflowStep[] {
  const prompt = guardrails.map(({ ref, step }) => ({ ref, step, phase: 'prompt' as const }));
  return sortedSteps([...prompt, ...steps]);
}

export function sortedSteps(steps: readonly WorkflowStep[]): WorkflowStep[] {
  const place = ({ phase }: WorkflowStep) => workflowPhases.indexOf(phase);
  return steps.toSorted(
    (one, other) => place(one) - place(other) || one.step - other.step || (one.ref < other.ref ? -1 : 1),
  );
}

/** The payload with the names of the admin API. Its canonical JSON is what the hash of a version is of. */
export function payloadJson({ schemaVersion, features, guardrails, steps, cache, headers }: WorkflowPayload) {
  return {
    schema_version: schemaVersion,
    features,
    ...(guardrails === undefined ? {} : { guardrails }),
    ...(steps === undefined ? {} : { steps }),
    ...(cache === undefined ? {} : { cache: cacheJson(cache) }),
    ...(headers === undefined ? {} : { headers }),
  };
}

function cacheJson({ scope, ttlSeconds, toolCalls }: NonNullable<WorkflowPayload['cache']>) {
  return {
    scope,
    ...(ttlSeconds === undefined ? {} : { ttl_seconds: ttlSeconds }),
    ...(toolCalls === undefined ? {} : { tool_calls: toolCalls }),
  };
}

export function workflowStream(scope: WorkflowScope): StreamName {
  return streamName('workflow', scopeKey(scope));
}

/** The requests that a workflow is for: all, or those of a user path, of a provider, or of a model of a provider. */
export interface WorkflowScope {
  /** The name of a provider instance. */
  readonly provider?: string | undefined;
  /** The provider's own id of a model. Only together with a provider. */
  readonly model?: string | undefined;
  /** The path with everything below it. */
  readonly userPath?: string | undefined;
}

export type ScopeType = 'global' | 'provider' | 'provider_model' | 'path' | 'provider_path' | 'provider_model_path';

export function scopeType({ provider, model, userPath }: WorkflowScope): ScopeType {
  const isOfPath = userPath !== undefined;
  if (provider === undefined) return isOfPath ? 'path' : 'global';
  if (model === undefined) return isOfPath ? 'provider_path' : 'provider';
  return isOfPath ? 'provider_model_path' : 'provider_model';
}

/** Unique for each scope: no part contains `:`. */
export function scopeKey(scope: WorkflowScope): string {
  const { provider, model, userPath } = scope;
  return [scopeType(scope), provider, model, userPath].filter((part) => part !== undefined).join(':');
}

/** For readers: `global`, `/team`, `openai/gpt-4o @ /team`. */
export function scopeDisplay({ provider, model, userPath }: WorkflowScope): string {
  if (provider === undefined) return userPath ?? 'global';
  const target = model === undefined ? provider : `${provider}/${model}`;
  return userPath === undefined ? target : `${target} @ ${userPath}`;
}

export function isAtOrBelow(path: string, above: string): boolean {
  return above === '/' || path === above || path.startsWith(`${above}/`);
}
