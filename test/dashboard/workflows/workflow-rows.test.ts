import { describe, expect, it } from 'vitest';
import {
  addStep,
  isTogether,
  moveStep,
  removeStep,
  setTogether,
} from '../../../dashboard/src/pages/workflows/step-list.ts';
import { bodyOf, draftOf } from '../../../dashboard/src/pages/workflows/workflow-draft.ts';
import {
  appliesWithout,
  groupsOf,
  type Scope,
  scopeTitle,
  stepsOf,
  type Workflow,
} from '../../../dashboard/src/pages/workflows/workflow-rows.ts';

const features = { audit: true, usage: true, budget: true, failover: true, guardrails: true, cache: false };

function workflow(scope: Scope, payload: Partial<Workflow['workflow_payload']> = {}): Workflow {
  return {
    ...{ id: scopeTitle(scope), scope, version: 1, active: true, name: 'n', created_at: '' },
    workflow_payload: { features, steps: [], ...payload },
    ...{ scope_type: 'global', scope_display: '', effective_features: features },
  };
}

const path = (scope_user_path: string): Scope => ({ scope_user_path });
const provider = (scope_provider_name: string): Scope => ({ scope_provider_name });

describe('appliesWithout', () => {
  const model = { ...provider('openai'), scope_model: 'small' };
  const scopes: Scope[] = [
    ...[{}, path('/team'), path('/team/a'), path('/teams'), provider('openai'), provider('groq'), model],
    ...[
      { ...provider('openai'), ...path('/team') },
      { ...model, ...path('/team/a') },
    ],
  ];
  const active = scopes.map((scope) => workflow(scope));
  const after = (scope: Scope) => appliesWithout(workflow(scope), active)?.id;

  it.each([
    [path('/team/a'), '/team'],
    [path('/team'), 'all requests'],
    [path('/teams'), 'all requests'],
    [model, 'openai'],
    [provider('groq'), 'all requests'],
    [{ ...model, ...path('/team/a') }, '/team/a'],
    [{ ...model, ...path('/team/a/b') }, 'openai/small at /team/a'],
    [{ ...provider('openai'), ...path('/team') }, '/team'],
    [{ ...provider('openai'), ...path('/other') }, 'openai'],
  ])('of %j is that of %s', (scope, expected) => {
    expect(after(scope)).toBe(expected);
  });

  it('is undefined for the last workflow', () => {
    const last = workflow({});
    expect(appliesWithout(last, [last])).toBeUndefined();
  });
});

describe('the steps of a phase', () => {
  const steps = [
    { ref: 'b', step: 3 },
    { ref: 'c', step: 3 },
    { ref: 'd', step: 9 },
  ];

  it('run in ascending order; version 1 has only those of requests', () => {
    const { workflow_payload: payload } = workflow(
      {},
      {
        guardrails: [
          { ref: 'late', step: 5 },
          { ref: 'early', step: 0 },
        ],
      },
    );
    expect(groupsOf(stepsOf(payload, 'prompt'))).toEqual([['early'], ['late']]);
    expect(stepsOf(payload, 'stream')).toEqual([]);
    expect(groupsOf(steps)).toEqual([['b', 'c'], ['d']]);
  });

  it('are added at the end, moved and removed', () => {
    expect(addStep(steps, 'e').at(-1)).toEqual({ ref: 'e', step: 10 });
    expect(addStep([], 'e')).toEqual([{ ref: 'e', step: 0 }]);
    expect(moveStep(steps, 2, -1)).toEqual([
      { ref: 'b', step: 3 },
      { ref: 'd', step: 3 },
      { ref: 'c', step: 9 },
    ]);
    expect(moveStep(steps, 0, -1)).toBe(steps);
    expect(groupsOf(removeStep(steps, 0))).toEqual([['c'], ['d']]);
  });

  it('run at the same time, or one after the other', () => {
    expect(steps.map((_, place) => isTogether(steps, place))).toEqual([false, true, false]);
    expect(groupsOf(setTogether(steps, 1, false))).toEqual([['b'], ['c'], ['d']]);
    expect(groupsOf(setTogether(steps, 2, true))).toEqual([['b', 'c', 'd']]);
    expect(groupsOf(setTogether(setTogether(steps, 2, true), 1, false))).toEqual([['b'], ['c', 'd']]);
    expect(setTogether(steps, 0, true)).toBe(steps);
  });
});

describe('bodyOf', () => {
  it('of an unchanged version is the same scope and payload', () => {
    const cache = { scope: 'key', ttl_seconds: 5, tool_calls: true } as const;
    const steps = [{ ref: 'a', phase: 'stream', step: 4 }] as const;
    const scope = { ...provider('openai'), scope_model: 'small', ...path('/team') };
    const headers = { pass: ['x-tenant'], set: { 'x-team': 'alpha' } };
    expect(bodyOf(draftOf(workflow(scope, { steps, cache, headers })))).toEqual({
      ...scope,
      name: 'n',
      workflow_payload: { features, steps, cache, headers },
    });
  });

  it('leaves out the cache where it has no settings, and the reserved name of the default', () => {
    const body = bodyOf(draftOf({ ...workflow({}), name: 'default-global', managed_default: true }));
    expect(body).toEqual({ name: 'global', workflow_payload: { features, steps: [] } });
  });
});
