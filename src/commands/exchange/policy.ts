/** The policy that applies to one request: its workflow, with its guardrails. Selected once, before anything is recorded. */

import type { GuardrailStep } from '../guardrails/phases/guardrail-step.ts';
import type { ChainStep, CompiledWorkflow, GuardrailChains, SelectedWorkflow } from '../workflows/chains.ts';
import type { WorkflowVersion } from '../workflows/workflow.ts';

export interface CachePolicy {
  /**
   * Requests that may get each other's answers: those of the same user path, of the same key, or all of the workflow.
   */
  readonly scope: 'user_path' | 'key' | 'shared';
  /** How long an answer may be served again, unless the request says otherwise. At most the configured maximum. */
  readonly ttlSeconds: number;
  /** The longest time that a request may state. */
  readonly longestTtlSeconds: number;
  /** Whether answers that call tools are kept. */
  readonly toolCalls: boolean;
  /** Hashes of the guardrails that evaluate requests and answers: part of what determines an answer. */
  readonly guardrails: string;
}

/** What the configuration of the process sets for all requests. */
interface ProcessPolicy {
  /** The capture level of requests that are audited. */
  readonly capture: ExchangePolicy['capture'];
  /** Undefined while the process has no response cache. */
  readonly cache?: { readonly ttlSeconds: number; readonly maxTtlSeconds: number } | undefined;
}

/** One object for all requests of a workflow. */
export interface ExchangePolicy {
  /** Recorded with the request; undefined when there is no workflow for it. */
  readonly workflow: SelectedWorkflow | undefined;
  /** `metadata`: neither the body of the request nor the answer is recorded. */
  readonly capture: 'full' | 'metadata';
  /** Whether the usage of the answer is recorded and charged. */
  readonly recordsUsage: boolean;
  /** Whether budgets may refuse the request, and reserve its cost. */
  readonly checksBudgets: boolean;
  /** Whether other candidates are called after the first. */
  readonly failsOver: boolean;
  /** Undefined when answers neither come from the response cache nor are kept there. */
  readonly cache: CachePolicy | undefined;
  /** What is done with the headers of requests to providers; undefined: nothing. */
  readonly headers: HeaderRules | undefined;
  /** Undefined when no guardrail runs. */
  readonly guardrails: GuardrailSteps | undefined;
  /** Why the guardrails cannot run. The request is refused, because it must not pass unchecked. */
  readonly problem: string | undefined;
}

type HeaderRules = NonNullable<WorkflowVersion['payload']['headers']>;

/** The headers of a request to a provider under the rules. @param client its headers. Names are in lower case. */
export function ruledHeaders(
  { set, remove = [], ...rules }: HeaderRules,
  headers: Readonly<Record<string, string>>,
  client: Readonly<Record<string, string>>,
): Record<string, string> {
  const ruled = { ...headers, ...passedHeaders(rules, client), ...set };
  for (const name of remove) delete ruled[name];
  return ruled;
}

export function passedHeaders({ pass = [] }: HeaderRules, client: Readonly<Record<string, string>>) {
  return Object.fromEntries(Object.entries(client).filter(([name]) => pass.includes(name)));
}

/** Without a workflow: every feature, and no guardrails. */
export function policyWithout(process: ProcessPolicy): ExchangePolicy {
  const { capture } = process;
  return {
    workflow: undefined,
    capture,
    recordsUsage: true,
    checksBudgets: true,
    failsOver: true,
    cache: cachePolicy(undefined, capture, process),
    headers: undefined,
    guardrails: undefined,
    problem: undefined,
  };
}

/**
 * The policy of a workflow. Audit and usage follow the workflow alone: the switches of the process for them change
 * reports, and not what is recorded.
 */
export function policyOfWorkflow(compiled: CompiledWorkflow, process: ProcessPolicy): ExchangePolicy {
  const { workflow, selected, effective, chains, problem } = compiled;
  const { features, cache, headers } = workflow.payload;
  const capture = features.audit ? process.capture : 'metadata';
  return {
    workflow: selected,
    capture,
    recordsUsage: features.usage,
    checksBudgets: features.budget && features.usage,
    failsOver: effective.failover,
    cache: effective.cache ? cachePolicy(cache, capture, process, compiled.chainHashes) : undefined,
    headers,
    guardrails: chains === undefined ? undefined : guardrailSteps(chains),
    problem,
  };
}

/** The record of the answer is what the cache serves: without recorded bodies there is nothing to serve. */
function cachePolicy(
  settings: CompiledWorkflow['workflow']['payload']['cache'],
  capture: ExchangePolicy['capture'],
  { cache }: ProcessPolicy,
  hashes: CompiledWorkflow['chainHashes'] = {},
): CachePolicy | undefined {
  if (cache === undefined || capture !== 'full') return undefined;
  return {
    scope: settings?.scope ?? 'user_path',
    ttlSeconds: Math.min(settings?.ttlSeconds ?? cache.ttlSeconds, cache.maxTtlSeconds),
    longestTtlSeconds: Math.min(settings?.ttlSeconds ?? cache.maxTtlSeconds, cache.maxTtlSeconds),
    toolCalls: settings?.toolCalls ?? false,
    guardrails: JSON.stringify(hashes),
  };
}

// The guardrails of a workflow as the exchange runs them.

/** One object for all requests of a workflow. */
export interface GuardrailSteps {
  readonly prompt: readonly GuardrailStep[];
  /** For whole answers. */
  readonly response: readonly GuardrailStep[];
  /**
   * Steps of the response phase that read a streamed answer: the stream is collected for them. A guardrail that also
   * has a step in the stream phase runs only there.
   */
  readonly collected: readonly GuardrailStep[];
  readonly stream: readonly GuardrailStep[];
}

export function guardrailSteps({ prompt, response, stream }: GuardrailChains): GuardrailSteps {
  const ofResponse = response.flatMap(stepsIn);
  const ofStream = stream.flatMap(stepsIn);
  const streamed = new Set(ofStream.map(({ name }) => name));
  return {
    prompt: prompt.flatMap(stepsIn),
    response: ofResponse,
    collected: ofResponse.filter(({ name }) => !streamed.has(name)),
    stream: ofStream,
  };
}

function stepsIn({ step, guardrails }: ChainStep): GuardrailStep[] {
  return guardrails.map(({ definition: { name, type, failMode, timeoutMs }, config: { mutating }, compiled }) => ({
    ...{ name, type, step, failMode, timeoutMs, mutating },
    guardrail: compiled,
  }));
}
