/** A workflow while it is edited, and the body that the API accepts. Pure. */
import {
  type Feature,
  type Payload,
  type Phase,
  phases,
  type Scope,
  type Step,
  stepsOf,
  type Workflow,
  type WorkflowVersion,
} from './workflow-rows.ts';

/** The body of `POST /admin/workflows`. */
export interface WorkflowBody extends Scope {
  readonly name: string;
  readonly description?: string;
  readonly workflow_payload: {
    readonly features: Payload['features'];
    readonly steps: { readonly ref: string; readonly phase: Phase; readonly step: number }[];
    readonly cache?: { readonly scope?: string; readonly ttl_seconds?: number; readonly tool_calls?: boolean };
    readonly headers?: Payload['headers'];
  };
}

export interface CacheDraft {
  /** '' for the default. */
  readonly scope: string;
  readonly ttl: number | undefined;
  readonly toolCalls: boolean;
}

export interface WorkflowDraft {
  readonly name: string;
  readonly description: string;
  /** Parts of the scope; '' for all. */
  readonly provider: string;
  readonly model: string;
  readonly userPath: string;
  readonly features: Readonly<Record<Feature, boolean>>;
  readonly cache: CacheDraft;
  /** Edited through the API only. */
  readonly headers?: Payload['headers'];
  readonly steps: Readonly<Record<Phase, readonly Step[]>>;
}

const noCache: CacheDraft = { scope: '', ttl: undefined, toolCalls: false };

export const emptyDraft: WorkflowDraft = {
  ...{ name: '', description: '', provider: '', model: '', userPath: '' },
  features: { audit: true, usage: true, budget: true, failover: true, guardrails: true, cache: true },
  cache: noCache,
  steps: { prompt: [], response: [], stream: [] },
};

/** The name and the description of the gateway's own default are reserved: a version of an administrator has others. */
export function draftOf(row: Workflow | WorkflowVersion): WorkflowDraft {
  const { scope, workflow_payload: payload, managed_default: isDefault } = row;
  const { cache, headers } = payload;
  return {
    name: isDefault ? 'global' : row.name,
    description: isDefault ? '' : (row.description ?? ''),
    provider: scope.scope_provider_name ?? '',
    model: scope.scope_model ?? '',
    userPath: scope.scope_user_path ?? '',
    features: payload.features,
    cache:
      cache === undefined
        ? noCache
        : { scope: cache.scope, ttl: cache.ttl_seconds, toolCalls: cache.tool_calls ?? false },
    ...(headers === undefined ? {} : { headers }),
    steps: {
      prompt: stepsOf(payload, 'prompt'),
      response: stepsOf(payload, 'response'),
      stream: stepsOf(payload, 'stream'),
    },
  };
}

export function bodyOf(draft: WorkflowDraft): WorkflowBody {
  const { name, description, provider, model, userPath, features, steps } = draft;
  return {
    ...(provider === '' ? {} : { scope_provider_name: provider }),
    ...(model === '' ? {} : { scope_model: model }),
    ...(userPath === '' ? {} : { scope_user_path: userPath }),
    name,
    ...(description === '' ? {} : { description }),
    workflow_payload: {
      features,
      steps: phases.flatMap((phase) => steps[phase].map(({ ref, step }) => ({ ref, phase, step }))),
      ...cacheOf(draft.cache),
      ...(draft.headers === undefined ? {} : { headers: draft.headers }),
    },
  };
}

function cacheOf({ scope, ttl, toolCalls }: CacheDraft): Pick<WorkflowBody['workflow_payload'], 'cache'> {
  if (scope === '' && ttl === undefined && !toolCalls) return {};
  return {
    cache: {
      ...(scope === '' ? {} : { scope }),
      ...(ttl === undefined ? {} : { ttl_seconds: ttl }),
      ...(toolCalls ? { tool_calls: true } : {}),
    },
  };
}

/** The scope as rows of the API have it. */
export function scopeOf({ provider, model, userPath }: WorkflowDraft): Workflow['scope'] {
  return {
    ...(provider === '' ? {} : { scope_provider_name: provider }),
    ...(model === '' ? {} : { scope_model: model }),
    ...(userPath === '' ? {} : { scope_user_path: userPath }),
  };
}

/** What two versions are compared by. */
export function comparable({
  scope,
  name,
  description,
  workflow_payload: payload,
}: Workflow | WorkflowVersion): string {
  return JSON.stringify({ scope, name, description, workflow_payload: payload }, undefined, 2);
}
