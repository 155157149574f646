/**
 * The servers of a comparison, in the order in which tables list them. `direct`: no server in the middle. `bare`: the
 * bare pass-through. `gateway`: analytics off. `shipped`: analytics on, on the same processor. `governed`: analytics
 * off, with a managed key that has a budget and limits. `guarded`: analytics off, with a workflow of three guardrails
 * that the gateway evaluates itself. `cached`: analytics off, with the response cache; every request is the same.
 */
export const SUBJECTS = ['direct', 'bare', 'gateway', 'shipped', 'governed', 'guarded', 'cached'] as const;
export type SubjectKind = (typeof SUBJECTS)[number];
