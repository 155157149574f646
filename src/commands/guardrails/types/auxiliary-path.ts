import type { EvaluationContext, GuardrailServices } from '../guardrail-type.ts';

/** The user path at which a guardrail calls a model: `<path of the guardrail or of the caller>/guardrails/<name>`. */
export function auxiliaryPath(
  { userPath, name }: Pick<GuardrailServices, 'userPath' | 'name'>,
  caller: Pick<EvaluationContext, 'userPath'>,
): string {
  const path = userPath ?? caller.userPath;
  return `${path === '/' ? '' : path}/guardrails/${name}`;
}
