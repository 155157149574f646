/** A guardrail that can run: its type, and its configuration checked and compiled. */
import type { z } from 'zod';
import type { Guardrail, GuardrailTypes } from './guardrail.ts';
import {
  type CompiledGuardrail,
  GuardrailConfigError,
  type GuardrailServices,
  type GuardrailType,
} from './guardrail-type.ts';

export interface PreparedGuardrail {
  readonly definition: Guardrail;
  readonly type: GuardrailType<unknown>;
  /** As the schema of the type returned it, with its secrets. */
  readonly config: unknown;
  readonly compiled: CompiledGuardrail;
}

/** Why a guardrail cannot run. */
export interface GuardrailProblem {
  readonly problem: string;
  /** The setting at fault, as `config.<key>`; undefined when it is none of them. */
  readonly param?: string | undefined;
}

export interface PreparationParts {
  readonly types: GuardrailTypes;
  /** Opens a sealed secret of a guardrail. @throws Error with the reason why it cannot be opened */
  openSecret(guardrail: string, field: string, sealed: string): string;
  /** What the compiled guardrail may use besides its configuration. */
  servicesOf(guardrail: Pick<Guardrail, 'name' | 'userPath'>): GuardrailServices;
}

export function isPrepared(one: PreparedGuardrail | GuardrailProblem): one is PreparedGuardrail {
  return 'compiled' in one;
}

/** Checks and compiles the definition. @throws what `compile` of the type throws, except `GuardrailConfigError` */
export function prepareGuardrail(
  definition: Guardrail,
  { types, openSecret, servicesOf }: PreparationParts,
): PreparedGuardrail | GuardrailProblem {
  const type = types.get(definition.type);
  if (type === undefined) return { problem: `there is no guardrail type '${definition.type}'`, param: 'type' };
  const opened: Record<string, string> = {};
  for (const [field, sealed] of Object.entries(definition.secrets ?? {})) {
    try {
      opened[field] = openSecret(definition.name, field, sealed);
    } catch (error) {
      return { problem: `its '${field}' cannot be opened: ${reasonOf(error)}`, param: `config.${field}` };
    }
  }
  const parsed = type.config.safeParse({ ...definition.config, ...opened });
  if (!parsed.success) return problemOf(parsed.error);
  try {
    const compiled = type.compile(parsed.data, servicesOf(definition));
    return { definition, type, config: parsed.data, compiled };
  } catch (error) {
    if (!(error instanceof GuardrailConfigError)) throw error;
    return { problem: error.message, param: 'config' };
  }
}

function problemOf({ issues }: z.ZodError): GuardrailProblem {
  const [issue] = issues;
  if (issue === undefined) return { problem: 'its configuration is invalid', param: 'config' };
  const place = issue.code === 'unrecognized_keys' ? [...issue.path, ...issue.keys.slice(0, 1)] : issue.path;
  const name = place.join('.');
  return {
    problem: name === '' ? issue.message : `'${name}': ${issue.message}`,
    param: ['config', ...place].join('.'),
  };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
