import type { EvaluationContext, GuardrailServices } from '../guardrail-type.ts';

/** The user path at which a guardrail calls a model: `<path of the guardrail or of the caller>/guardrails/<name>`. */
export function auxiliaryPath(
  { userPath, name }: Pick<GuardrailServices, 'userPath' | 'name'>,
  caller: Pick<EvaluationContext, 'userPath'>,
): string {
  const path = userPath ?? caller.userPath;
  return `${path.replace(/\/$/, '')}/guardrails/${segmentOf(name)}`;
}

/** A name may contain spaces, or consist of dots, which a segment of a user path may not. */
function segmentOf(name: string): string {
  return name.replaceAll(' ', '%20').replace(/^\.{1,2}$/, (dots) => dots.replaceAll('.', '%2E'));
}
