/** The guardrails of a workflow as the exchange runs them. */
import type { GuardrailStep } from '../guardrails/phases/guardrail-step.ts';
import type { ChainStep, GuardrailChains } from '../workflows/chains.ts';

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
