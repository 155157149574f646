import { describe, expect, it } from 'vitest';
import { lostWith, targetHealth, targetOf, targetText } from '../../../dashboard/src/pages/models/targets.ts';
import type { ProviderStatus } from '../../../dashboard/src/pages/models/types.ts';

const listed = (provider_name: string, id: string, provider_type = provider_name) => ({
  ...{ provider_name, provider_type, selector: `${provider_name}/${id}`, model: { id } },
});
const models = [listed('a', 'small'), listed('b', 'small', 'vllm'), listed('b', 'big', 'vllm')];

describe('the target of a text', () => {
  it.each([
    ['a/small', { provider: 'a', model: 'small' }],
    ['a/org/small', { provider: 'a', model: 'org/small' }],
    ['org/small', { model: 'org/small' }],
    [' fast ', { model: 'fast' }],
  ])('%s', (text, target) => {
    expect(targetOf(text, new Set(['a']))).toEqual(target);
    expect(targetText(target)).toBe(text.trim());
  });
});

describe('the health of a target', () => {
  const state = (name: string, status: ProviderStatus['status']): ProviderStatus => ({
    ...{ name, type: name, status, status_label: status === 'healthy' ? 'Healthy' : 'Unhealthy' },
    ...{ status_reason: 'the reason', config: {}, runtime: { discovered_model_count: 1 } },
  });
  const of = (target: { provider?: string; model: string }) =>
    targetHealth(target, models, [state('a', 'unhealthy'), state('b', 'healthy')], new Set(['fast']));

  it('is that of its provider', () => {
    expect(of({ provider: 'a', model: 'small' })).toEqual({ tone: 'bad', label: 'Unhealthy', reason: 'the reason' });
    expect(of({ provider: 'vllm', model: 'small' })).toMatchObject({ tone: 'ok' });
  });

  it('is that of the best provider when the target names none', () => {
    expect(of({ model: 'small' })).toEqual({ tone: 'ok', label: 'Healthy', reason: undefined });
  });

  it('says when no provider lists the model', () => {
    expect(of({ provider: 'a', model: 'big' })).toMatchObject({ tone: 'bad', label: 'Not served' });
  });

  it('names another virtual model', () => {
    expect(of({ model: 'fast' })).toMatchObject({ label: 'Virtual model' });
  });
});

describe('what a provider takes with it', () => {
  const virtual = (source: string, ...targets: { provider?: string; model: string }[]) => ({ source, targets });

  it('is its models, and the virtual models with a target that nothing else serves', () => {
    const lost = lostWith('b', models, [
      virtual('only-b', { provider: 'b', model: 'big' }),
      virtual('both', { provider: 'b', model: 'big' }, { provider: 'a', model: 'small' }),
      virtual('anywhere', { model: 'small' }),
      virtual('by-type', { provider: 'vllm', model: 'small' }),
      virtual('chain', { model: 'only-b' }),
      virtual('never-served', { provider: 'a', model: 'missing' }),
    ]);
    expect(lost).toEqual({ models: ['b/small', 'b/big'], fewer: ['both'], none: ['only-b', 'by-type'] });
  });
});
