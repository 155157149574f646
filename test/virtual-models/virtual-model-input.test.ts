import { describe, expect, test } from 'vitest';
import { Refusal } from '../../src/commands/refusal.ts';
import { cheapestHealthy, RouteStrategies } from '../../src/commands/virtual-models/virtual-model.ts';
import { type VirtualModelInput, virtualModelFrom } from '../../src/commands/virtual-models/virtual-model-input.ts';
import type { UserPath } from '../../src/events/event.ts';

const providers = {
  has: (name: string) => name === 'groq' || name === 'openai',
  knows: (name: string) => ['groq', 'openai', 'llamacpp'].includes(name),
};
const from = (input: VirtualModelInput) => virtualModelFrom(input, providers, new RouteStrategies([cheapestHealthy]));
const to = (targets: VirtualModelInput['targets'], more: Partial<VirtualModelInput> = {}) =>
  from({ source: 'fast', targets, ...more });

describe('the input for a virtual model', () => {
  test('gets defaults for missing members', () => {
    expect(from({ source: ' fast ', targetModel: 'groq/small' })).toEqual({
      source: 'fast',
      targets: [{ model: 'groq/small' }],
      strategy: 'round_robin',
      sessionAffinity: true,
      failover: { enabled: true },
      userPaths: [],
      enabled: true,
    });
  });

  test('keeps its members', () => {
    const model = to([{ provider: 'llamacpp', model: ' small ', weight: 0.5 }, { model: 'large' }], {
      strategy: 'adaptive',
      sessionAffinity: false,
      failover: { statuses: [503, 429, 429], phrases: ['too busy'] },
      userPaths: ['/b', '/a', '/b'] as UserPath[],
      enabled: false,
      description: 'quick',
    });
    expect(model).toEqual({
      source: 'fast',
      targets: [{ provider: 'llamacpp', model: 'small', weight: 0.5 }, { model: 'large' }],
      strategy: 'adaptive',
      sessionAffinity: false,
      failover: { enabled: true, statuses: [429, 503], phrases: ['too busy'] },
      userPaths: ['/b', '/a'],
      enabled: false,
      description: 'quick',
    });
  });

  test.each([
    ['/', '/'],
    ['*', '/'],
    ['groq/*', 'groq/'],
    ['openai/gpt-4o', 'openai/gpt-4o'],
    ['gpt-4o', 'gpt-4o'],
  ])('without targets is a policy, of %s as %s', (source, canonical) => {
    expect(from({ source })).toMatchObject({ source: canonical, targets: [] });
    expect(from({ source, targets: [] })).toMatchObject({ source: canonical, targets: [] });
  });
});

describe('invalid input', () => {
  const many = Array.from({ length: 65 }, (_, n) => ({ model: `m${n}` }));

  test.each<[string, () => unknown, string]>([
    ['a blank target', () => to([{ model: 'a' }, { model: ' ' }]), 'targets.1.model'],
    ['a blank target model', () => from({ source: 'fast', targetModel: '' }), 'target_model'],
    ['both ways to name targets', () => to([{ model: 'a' }], { targetModel: 'b' }), 'target_model'],
    ['an unknown provider', () => to([{ provider: 'nobody', model: 'a' }]), 'targets.0.provider'],
    ['a target twice', () => to([{ model: 'a' }, { model: 'a', weight: 2 }]), 'targets.1'],
    ['no weight', () => to([{ model: 'a', weight: 0 }]), 'targets.0.weight'],
    ['a negative weight', () => to([{ model: 'a', weight: -1 }]), 'targets.0.weight'],
    ['a weight that is no number', () => to([{ model: 'a', weight: Number.NaN }]), 'targets.0.weight'],
    ['an infinite weight', () => to([{ model: 'a', weight: Number.POSITIVE_INFINITY }]), 'targets.0.weight'],
    ['too many targets', () => to(many), 'targets'],
    ['an unknown strategy', () => to([{ model: 'a' }], { strategy: 'random' }), 'strategy'],
    ['a plugin without its name', () => to([{ model: 'a' }], { strategy: 'plugin' }), 'strategy_plugin'],
    ['a status that is no error', () => to([{ model: 'a' }], { failover: { statuses: [200] } }), 'failover.statuses'],
    ['a phrase without words', () => to([{ model: 'a' }], { failover: { phrases: [' * '] } }), 'failover.phrases'],
    ['a name with a control character', () => from({ source: 'fa\u0000st', targetModel: 'a' }), 'source'],
    ['half a character', () => from({ source: 'fast\ud800', targetModel: 'a' }), 'source'],
    ['a name that selects', () => from({ source: 'groq/', targetModel: 'a' }), 'source'],
    ['a name for everything', () => from({ source: '*', targetModel: 'a' }), 'source'],
    ['no name', () => from({ source: '', targetModel: 'a' }), 'source'],
    ['a name that is too long', () => from({ source: 'x'.repeat(257), targetModel: 'a' }), 'source'],
    ['a target that selects', () => to([{ model: 'groq/*' }]), 'targets.0.model'],
    ['a policy of an unknown provider', () => from({ source: 'nobody/x' }), 'source'],
    ['a policy of no selector', () => from({ source: 'gpt*' }), 'source'],
    ['a strategy without targets', () => from({ source: 'groq/', strategy: 'cost' }), 'strategy'],
    ['affinity without targets', () => from({ source: 'groq/', sessionAffinity: true }), 'session_affinity'],
    ['failover without targets', () => from({ source: 'groq/', failover: false }), 'failover'],
  ])('%s is refused, and the field is named', (_what, make, param) => {
    const refused = make();
    expect(refused).toBeInstanceOf(Refusal);
    expect(refused).toMatchObject({ status: 400, type: 'invalid_request_error', param });
  });
});
