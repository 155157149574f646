import { describe, expect, it } from 'vitest';
import { managedDefaultDescription, managedDefaultName } from '../../src/commands/workflows/workflow-input.ts';
import { allOn, draft, refusalOf } from './made.ts';

const features = allOn;

describe('a workflow as it is sent', () => {
  it('is stored with its steps sorted by phase, step and name', () => {
    const { payload } = draft({
      payload: {
        features,
        steps: [
          { ref: 'z', phase: 'stream' },
          { ref: 'b', step: 1 },
          { ref: 'c', phase: 'prompt', step: 0 },
          { ref: 'a', step: 1 },
          { ref: 'a', phase: 'response', step: 7 },
        ],
      },
    });
    expect(payload).toEqual({
      schemaVersion: 2,
      features,
      steps: [
        { ref: 'c', phase: 'prompt', step: 0 },
        { ref: 'a', phase: 'prompt', step: 1 },
        { ref: 'b', phase: 'prompt', step: 1 },
        { ref: 'a', phase: 'response', step: 7 },
        { ref: 'z', phase: 'stream', step: 0 },
      ],
    });
  });

  it('is stored with what the response cache does, and without it when nothing is given', () => {
    expect(draft({ payload: { features, cache: {} } }).payload.cache).toEqual({ scope: 'user_path' });
    const cache = { scope: 'key', ttlSeconds: 5, toolCalls: false };
    expect(draft({ payload: { features, cache } }).payload.cache).toEqual(cache);
    expect(draft({ payload: { features } }).payload).not.toHaveProperty('cache');
  });

  it.each([
    ['an unknown scope', { cache: { scope: 'tenant' } }, 'workflow_payload.cache.scope'],
    ['no time', { cache: { ttlSeconds: 0 } }, 'workflow_payload.cache.ttl_seconds'],
    ['a fraction of a second', { cache: { ttlSeconds: 1.5 } }, 'workflow_payload.cache.ttl_seconds'],
    ['a cache in version 1', { schemaVersion: 1, cache: {} }, 'workflow_payload.cache'],
  ])('is refused with %s', (_what, payload, param) => {
    expect(refusalOf({ payload: { features, ...payload } })).toMatchObject({ status: 400, param });
  });

  it('is of version 1 when it has only guardrails, and stays so', () => {
    const { payload } = draft({
      payload: {
        features,
        guardrails: [
          { ref: 'b', step: 2 },
          { ref: 'a', step: 2 },
        ],
      },
    });
    expect(payload).toEqual({
      schemaVersion: 1,
      features,
      guardrails: [
        { ref: 'a', step: 2 },
        { ref: 'b', step: 2 },
      ],
    });
  });

  it('of version 2 has its guardrails as steps of the prompt phase', () => {
    const { payload } = draft({
      payload: { schemaVersion: 2, features, guardrails: [{ ref: 'a' }], steps: [{ ref: 'a', phase: 'stream' }] },
    });
    expect(payload.steps).toEqual([
      { ref: 'a', phase: 'prompt', step: 0 },
      { ref: 'a', phase: 'stream', step: 0 },
    ]);
    expect(payload.guardrails).toBeUndefined();
  });

  it('names the instance of a provider type', () => {
    expect(draft({ provider: 'llamacpp', model: 'm', userPath: '/a' }).scope).toEqual({
      provider: 'local',
      model: 'm',
      userPath: '/a',
    });
  });

  it.each([
    ['an empty name', { name: ' ' }, 'name'],
    [
      'the name and description of the default',
      { name: managedDefaultName, description: managedDefaultDescription },
      'name',
    ],
    ['a model without a provider', { model: 'm' }, 'scope_model'],
    ['an unknown provider', { provider: 'mistral' }, 'scope_provider_name'],
    ['an unknown model', { provider: 'openai', model: 'unknown' }, 'scope_model'],
    ['a colon in the provider', { provider: 'a:b' }, 'scope_provider_name'],
    ['a colon in the model', { provider: 'local', model: 'a:b' }, 'scope_model'],
    ['a colon in the path', { userPath: '/a:b' }, 'scope_user_path'],
    ['an unknown version', { payload: { features, schemaVersion: 3 } }, 'workflow_payload.schema_version'],
    ['steps in version 1', { payload: { features, schemaVersion: 1, steps: [] } }, 'workflow_payload.steps'],
    [
      'a step without a name',
      { payload: { features, steps: [{ ref: 'a' }, { ref: '' }] } },
      'workflow_payload.steps.1.ref',
    ],
    ['a negative step', { payload: { features, steps: [{ ref: 'a', step: -1 }] } }, 'workflow_payload.steps.0.step'],
    [
      'a fraction of a step',
      { payload: { features, guardrails: [{ ref: 'a', step: 0.5 }] } },
      'workflow_payload.guardrails.0.step',
    ],
    [
      'an unknown phase',
      { payload: { features, steps: [{ ref: 'a', phase: 'end' }] } },
      'workflow_payload.steps.0.phase',
    ],
    [
      'a guardrail twice in a phase',
      { payload: { features, steps: [{ ref: 'a' }, { ref: 'a', step: 1 }] } },
      'workflow_payload.steps',
    ],
    [
      'a guardrail twice by both lists',
      { payload: { features, steps: [{ ref: 'a' }], guardrails: [{ ref: 'a' }] } },
      'workflow_payload.steps',
    ],
    [
      'too many steps',
      { payload: { features, steps: Array.from({ length: 65 }, (_, place) => ({ ref: `g${place}` })) } },
      'workflow_payload.steps',
    ],
  ])('is refused with %s', (_why, more, param) => {
    expect(refusalOf(more)).toMatchObject({ status: 400, type: 'invalid_request_error', param });
  });

  it('may have the name of the default with another description', () => {
    expect(refusalOf({ name: managedDefaultName, description: 'ours' })).toBeUndefined();
    expect(refusalOf({ name: managedDefaultName })).toBeUndefined();
  });
});
