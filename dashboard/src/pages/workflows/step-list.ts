/** Changes of the ordered steps of one phase. Steps with the same number run at the same time. Pure. */
import type { Step } from './workflow-rows.ts';

/** At the end, after all others. */
export function addStep(steps: readonly Step[], ref: string): readonly Step[] {
  return [...steps, { ref, step: (steps.at(-1)?.step ?? -1) + 1 }];
}

export function removeStep(steps: readonly Step[], place: number): readonly Step[] {
  return steps.toSpliced(place, 1);
}

/** Changes places with the guardrail before (-1) or after (1) it. */
export function moveStep(steps: readonly Step[], place: number, by: -1 | 1): readonly Step[] {
  const one = steps[place];
  const other = steps[place + by];
  if (one === undefined || other === undefined) return steps;
  return steps.with(place, { ...one, ref: other.ref }).with(place + by, { ...other, ref: one.ref });
}

/** Whether it runs at the same time as the guardrail before it. */
export function isTogether(steps: readonly Step[], place: number): boolean {
  return place > 0 && steps[place]?.step === steps[place - 1]?.step;
}

/** Joins the guardrail, with those that run at the same time after it, to the step before it, or begins a step with it. */
export function setTogether(steps: readonly Step[], place: number, together: boolean): readonly Step[] {
  const before = steps[place - 1];
  const own = steps[place];
  if (before === undefined || own === undefined || isTogether(steps, place) === together) return steps;
  return steps.map((one, at) => {
    if (at < place) return one;
    if (!together) return { ...one, step: one.step + 1 };
    return one.step === own.step ? { ...one, step: before.step } : one;
  });
}
