/** Several stages one after the other: each reads what the stage before returns. */
import type { TextStage } from './json-text-rewriter.ts';

export function cascade(stages: readonly TextStage[]): TextStage {
  const [first] = stages;
  if (first !== undefined && stages.length === 1) return first;
  return {
    push: (text) => stages.reduce((passed, stage) => stage.push(passed), text),
    end: () => stages.reduce((passed, stage) => stage.push(passed) + stage.end(), ''),
  };
}
