/** Converts a workflow from a request to its stored form. Pure. The guardrails that it names are checked later. */
import { cacheScopes, workflowPhases } from '../../events/catalogue/workflow.ts';
import type { UserPath } from '../../events/event.ts';
import type { GuardrailPhase } from '../guardrails/guardrail-type.ts';
import { isHeaderValue, sentHeaderProblem } from '../header-names.ts';
import { Refusal, refusals } from '../refusal.ts';
import {
  sortedSteps,
  type WorkflowDraft,
  type WorkflowFeatures,
  type WorkflowPayload,
  type WorkflowScope,
  type WorkflowStep,
} from './workflow.ts';

export interface WorkflowInput {
  readonly provider?: string | undefined;
  readonly model?: string | undefined;
  readonly userPath?: UserPath | undefined;
  readonly name: string;
  readonly description?: string | undefined;
  readonly payload: PayloadInput;
}

export interface PayloadInput {
  /** Default: 2, or 1 when there are `guardrails` and no `steps`. */
  readonly schemaVersion?: number | undefined;
  readonly features: WorkflowFeatures;
  readonly guardrails?: readonly StepInput[] | undefined;
  readonly steps?: readonly (StepInput & { readonly phase?: string | undefined })[] | undefined;
  readonly cache?: CacheInput | undefined;
  readonly headers?: HeadersInput | undefined;
}

export interface HeadersInput {
  readonly pass?: readonly string[] | undefined;
  readonly set?: Readonly<Record<string, string>> | undefined;
  readonly remove?: readonly string[] | undefined;
}

export interface CacheInput {
  /** Default: `user_path`. */
  readonly scope?: string | undefined;
  readonly ttlSeconds?: number | undefined;
  /** Default: false. */
  readonly toolCalls?: boolean | undefined;
}

interface StepInput {
  readonly ref: string;
  /** Default: 0. */
  readonly step?: number | undefined;
}

export interface ScopeTargets {
  /** The name of the provider instance with this name, or of the first one of this type. */
  instanceOf(nameOrType: string): string | undefined;
  /** Whether the provider serves the model now. */
  serves(provider: string, model: string): boolean;
}

const MAX_NAME = 256;
const MAX_DESCRIPTION = 2000;
const MAX_STEPS = 64;
const MAX_HEADERS = 64;
const MAX_HEADER_LENGTH = 4096;

/** The name and the description of the workflow that the gateway creates. No other may have both. */
export const managedDefaultName = 'default-global';
export const managedDefaultDescription =
  'Created by the gateway for requests that no other workflow matches. A new global workflow replaces it.';

/** @returns the workflow, or a refusal that names the invalid field */
export function workflowDraft(input: WorkflowInput, known: ScopeTargets): WorkflowDraft | Refusal {
  const name = input.name.trim();
  const description = input.description?.trim() || undefined;
  if (name === '' || name.length > MAX_NAME) {
    return refusals.invalidRequest(`'name' must have from 1 to ${MAX_NAME} characters.`, 'name');
  }
  if (description !== undefined && description.length > MAX_DESCRIPTION) {
    return refusals.invalidRequest(`'description' may have at most ${MAX_DESCRIPTION} characters.`, 'description');
  }
  if (name === managedDefaultName && description === managedDefaultDescription) {
    return refusals.invalidRequest('This name with this description is reserved for the default workflow.', 'name');
  }
  const scope = scopeOfInput(input, known);
  if (scope instanceof Refusal) return scope;
  const payload = payloadOf(input.payload);
  if (payload instanceof Refusal) return payload;
  return { scope, name, ...(description === undefined ? {} : { description }), payload };
}

function scopeOfInput({ provider, model, userPath }: WorkflowInput, known: ScopeTargets): WorkflowScope | Refusal {
  for (const [param, part] of Object.entries({
    scope_provider_name: provider,
    scope_model: model,
    scope_user_path: userPath,
  })) {
    if (part?.includes(':')) return refusals.invalidRequest(`'${param}' may not contain ':'.`, param);
  }
  if (model !== undefined && provider === undefined) {
    return refusals.invalidRequest("'scope_model' needs 'scope_provider_name'.", 'scope_model');
  }
  const path = userPath === undefined ? {} : { userPath };
  if (provider === undefined) return path;
  const instance = known.instanceOf(provider);
  if (instance === undefined) {
    const message = `There is no provider '${provider}'.`;
    return refusals.invalidRequest(message, 'scope_provider_name', 'unknown_provider');
  }
  if (model === undefined) return { provider: instance, ...path };
  if (!known.serves(instance, model)) {
    return refusals.invalidRequest(`The provider '${instance}' has no model '${model}'.`, 'scope_model');
  }
  return { provider: instance, model, ...path };
}

function payloadOf({
  schemaVersion,
  features,
  guardrails,
  steps,
  cache,
  headers,
}: PayloadInput): WorkflowPayload | Refusal {
  const version = schemaVersion ?? (guardrails !== undefined && steps === undefined ? 1 : 2);
  if (version !== 1 && version !== 2) {
    return refusals.invalidRequest('The schema version must be 1 or 2.', 'workflow_payload.schema_version');
  }
  if (version === 1 && steps !== undefined) {
    const message = "A payload of schema version 1 has 'guardrails', not 'steps'.";
    return refusals.invalidRequest(message, 'workflow_payload.steps');
  }
  if (version === 1 && cache !== undefined) {
    return refusals.invalidRequest("A payload of schema version 1 has no 'cache'.", 'workflow_payload.cache');
  }
  if (version === 1 && headers !== undefined) {
    return refusals.invalidRequest("A payload of schema version 1 has no 'headers'.", 'workflow_payload.headers');
  }
  const cached = cache === undefined ? undefined : checkedCache(cache);
  if (cached instanceof Refusal) return cached;
  const ruled = headers === undefined ? undefined : checkedHeaders(headers);
  if (ruled instanceof Refusal) return ruled;
  const prompt = checkedSteps(guardrails ?? [], 'guardrails');
  if (prompt instanceof Refusal) return prompt;
  const own = checkedSteps(steps ?? [], 'steps');
  if (own instanceof Refusal) return own;
  const all = [...prompt, ...own];
  const repeated = all.find(({ ref, phase }, place) =>
    all.slice(0, place).some((other) => other.ref === ref && other.phase === phase),
  );
  const param = version === 1 ? 'workflow_payload.guardrails' : 'workflow_payload.steps';
  if (repeated !== undefined) {
    const { ref, phase } = repeated;
    return refusals.invalidRequest(`The guardrail '${ref}' is in the ${phase} phase twice.`, param);
  }
  if (all.length > MAX_STEPS) return refusals.invalidRequest(`There may be at most ${MAX_STEPS} guardrails.`, param);
  const sorted = sortedSteps(all);
  if (version === 2) {
    return {
      ...{ schemaVersion: 2, features, steps: sorted },
      ...(cached === undefined ? {} : { cache: cached }),
      ...(ruled === undefined ? {} : { headers: ruled }),
    };
  }
  return { schemaVersion: 1, features, guardrails: sorted.map(({ ref, step }) => ({ ref, step })) };
}

function checkedCache({ scope = 'user_path', ttlSeconds, toolCalls }: CacheInput): WorkflowPayload['cache'] | Refusal {
  const known = cacheScopes.find((one) => one === scope);
  if (known === undefined) {
    const message = `'scope' must be one of ${cacheScopes.join(', ')}.`;
    return refusals.invalidRequest(message, 'workflow_payload.cache.scope');
  }
  if (ttlSeconds !== undefined && (!Number.isSafeInteger(ttlSeconds) || ttlSeconds < 1)) {
    return refusals.invalidRequest("'ttl_seconds' must be an integer from 1.", 'workflow_payload.cache.ttl_seconds');
  }
  return {
    scope: known,
    ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
    ...(toolCalls === undefined ? {} : { toolCalls }),
  };
}

function checkedHeaders({ pass = [], set = {}, remove = [] }: HeadersInput): WorkflowPayload['headers'] | Refusal {
  const names = [...pass, ...Object.keys(set), ...remove].map((name) => name.toLowerCase());
  const wrongValue = Object.entries(set).find(([, value]) => value.length > MAX_HEADER_LENGTH || !isHeaderValue(value));
  const repeated = names.find((name, place) => names.indexOf(name) !== place);
  const problem =
    names.length > MAX_HEADERS
      ? `there may be at most ${MAX_HEADERS} headers`
      : (names.map(sentHeaderProblem).find((found) => found !== undefined) ??
        (repeated === undefined ? undefined : `the header '${repeated}' is there twice`) ??
        (wrongValue === undefined ? undefined : `the value of '${wrongValue[0]}' is no value of a header`));
  if (problem !== undefined) {
    return refusals.invalidRequest(`'headers' cannot be used: ${problem}.`, 'workflow_payload.headers');
  }
  const lower = (list: readonly string[]) => list.map((name) => name.toLowerCase());
  const values = Object.entries(set).map(([name, value]) => [name.toLowerCase(), value] as const);
  return {
    ...(pass.length === 0 ? {} : { pass: lower(pass) }),
    ...(values.length === 0 ? {} : { set: Object.fromEntries(values) }),
    ...(remove.length === 0 ? {} : { remove: lower(remove) }),
  };
}

function checkedSteps(
  steps: readonly (StepInput & { readonly phase?: string | undefined })[],
  member: 'guardrails' | 'steps',
): WorkflowStep[] | Refusal {
  const checked: WorkflowStep[] = [];
  for (const [place, { ref, phase = 'prompt', step = 0 }] of steps.entries()) {
    const param = `workflow_payload.${member}.${place}`;
    const name = ref.trim();
    if (name === '') return refusals.invalidRequest('A step needs the name of a guardrail.', `${param}.ref`);
    if (!Number.isSafeInteger(step) || step < 0) {
      return refusals.invalidRequest("'step' must be an integer from 0.", `${param}.step`);
    }
    const known = workflowPhases.find((one): one is GuardrailPhase => one === phase);
    if (known === undefined) {
      return refusals.invalidRequest(`'phase' must be one of ${workflowPhases.join(', ')}.`, `${param}.phase`);
    }
    checked.push({ ref: name, phase: known, step });
  }
  return checked;
}

// The workflow that the gateway creates for the requests of no other workflow.

/** Every feature is on; guardrails when there are steps. @param steps of guardrails that exist */
export function managedDefault(steps: readonly WorkflowStep[]): WorkflowDraft {
  const features = {
    cache: true,
    audit: true,
    usage: true,
    budget: true,
    guardrails: steps.length > 0,
    failover: true,
  };
  return {
    scope: {},
    name: managedDefaultName,
    description: managedDefaultDescription,
    payload: { schemaVersion: 2, features, steps: sortedSteps(steps) },
  };
}
