import type { Answer, OwnAnswer, ProviderAnswer } from '../answer-source.ts';
import type {
  Admitted,
  Arrived,
  Governed,
  Guarded,
  KeyLookedUp,
  Recorded,
  RequestParsed,
  Routed,
  Stage,
  WithHistory,
} from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';

/**
 * One step of the pipeline. It returns the input of the next step, or an answer, with which the pipeline continues at
 * `deliver`. It does not call another step. @throws Refusal, LogUnavailable
 */
export interface Step<In extends Arrived, Out extends Stage | Answer> {
  readonly name: string;
  run(context: In, deps: ExchangeDependencies): Out | Answer | Promise<Out | Answer>;
}

/** A step as the pipeline runs it. `inOrder` checks its input type at compile time. */
export interface AnyStep {
  readonly name: string;
  run(context: never, deps: ExchangeDependencies): Stage | Answer | Promise<Stage | Answer>;
}

type Steps = readonly [
  Step<Arrived, RequestParsed>,
  Step<RequestParsed, RequestParsed>,
  Step<RequestParsed, KeyLookedUp>,
  Step<KeyLookedUp, Routed>,
  Step<Routed, Governed>,
  Step<Governed, Recorded>,
  Step<Recorded, WithHistory>,
  Step<WithHistory, Guarded>,
  Step<Guarded, Guarded>,
  Step<Guarded, Admitted>,
  Step<Admitted, ProviderAnswer | OwnAnswer>,
];

/** The steps of the pipeline, each of which takes the result of the step before. */
export function inOrder(...steps: Steps): readonly AnyStep[] {
  return steps;
}

export function isAnswer(value: Stage | Answer): value is Answer {
  return 'source' in value;
}
