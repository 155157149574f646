import type { workflowFeatures } from '../events/catalogue/workflow.ts';

export type FeatureSwitches = Readonly<Record<(typeof workflowFeatures)[number], boolean>>;

/** All features but those that a workflow turned off. */
export function featuresWithout(off: readonly string[]): FeatureSwitches {
  const isOn = (feature: (typeof workflowFeatures)[number]) => !off.includes(feature);
  return {
    cache: isOn('cache'),
    audit: isOn('audit'),
    usage: isOn('usage'),
    budget: isOn('budget'),
    guardrails: isOn('guardrails'),
    failover: isOn('failover'),
  };
}
