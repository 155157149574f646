/** A guardrail that can run: its type, and its configuration checked and compiled. */
import type { Guardrail, GuardrailTypes, ReadConfig, UsableType } from './guardrail.ts';
import type { CompiledGuardrail, GuardrailServices } from './guardrail-type.ts';

export interface PreparedGuardrail {
  readonly definition: Guardrail;
  readonly type: UsableType;
  /** The configuration with its secrets. */
  readonly config: Extract<ReadConfig, { ok: true }>;
  readonly compiled: CompiledGuardrail;
}

/** Why a guardrail cannot run. */
export interface GuardrailProblem {
  readonly problem: string;
  /** The member at fault, for example `config.<key>`; undefined when the guardrail is missing. */
  readonly param?: string | undefined;
}

export interface PreparationParts {
  readonly types: GuardrailTypes;
  /** Opens a sealed secret of a guardrail. @throws Error with the reason why it cannot be opened */
  openSecret(guardrail: string, field: string, sealed: string): string;
  /** What the compiled guardrail may use besides its configuration. */
  servicesOf(guardrail: Pick<Guardrail, 'name' | 'userPath' | 'timeoutMs' | 'failMode'>): GuardrailServices;
}

export function isPrepared(one: PreparedGuardrail | GuardrailProblem): one is PreparedGuardrail {
  return 'compiled' in one;
}

/** Checks and compiles the definition. */
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
      const why = error instanceof Error ? error.message : String(error);
      return { problem: `its '${field}' cannot be opened: ${why}`, param: `config.${field}` };
    }
  }
  const config = type.read({ ...definition.config, ...opened });
  if (!config.ok)
    return { problem: config.problem, param: config.key === undefined ? 'config' : `config.${config.key}` };
  return { definition, type, config, compiled: config.compile(servicesOf(definition)) };
}
