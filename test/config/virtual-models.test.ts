import { describe, expect, test } from 'vitest';
import { configFrom, problemsFrom } from './load.ts';

const yaml = `
virtual_models:
  - source: fast
    targets:
      - { provider: groq, model: small, weight: 2 }
      - { model: large }
    strategy: adaptive
    session_affinity: no
    failover: { statuses: [503, 5xx], phrases: "too busy, come*later" }
    user_paths: [/team]
    description: whatever is quick
  - source: best
    target_model: \${BEST:-openai/gpt-5}
  - source: openai/
    enabled: false
`;

describe('virtual models that are declared', () => {
  test('come from the file', () => {
    const [fast, best, policy] = configFrom({ yaml }).virtualModels;
    expect(fast).toMatchObject({
      source: 'fast',
      targets: [{ provider: 'groq', model: 'small', weight: 2 }, { model: 'large' }],
      strategy: 'adaptive',
      sessionAffinity: false,
      failover: { phrases: ['too busy', 'come*later'] },
      userPaths: ['/team'],
      description: 'whatever is quick',
    });
    expect(best).toMatchObject({ source: 'best', targetModel: 'openai/gpt-5' });
    expect(policy).toMatchObject({ source: 'openai/', enabled: false, targets: undefined });
  });

  test('come from a variable too, over those of the same name', () => {
    const rows = [
      { source: 'best', target_model: 'mine', failover: false },
      { source: 'new', target_model: 'x' },
    ];
    const { virtualModels } = configFrom({ yaml, env: { VIRTUAL_MODELS: JSON.stringify(rows) } });
    expect(virtualModels.map(({ source, targetModel, failover }) => [source, targetModel, failover])).toEqual([
      ['fast', undefined, expect.any(Object)],
      ['openai/', undefined, undefined],
      ['best', 'mine', false],
      ['new', 'x', undefined],
    ]);
  });

  test('are none by default', () => {
    expect(configFrom({}).virtualModels).toEqual([]);
  });

  test.each<[string, string, string]>([
    ['[{"source":"a","target_model":" "}]', 'virtual_models.0.target_model', 'expected a model'],
    ['[{"source":"a","targets":[{"model":""}]}]', 'virtual_models.0.targets.0.model', 'expected a model'],
    ['[{"source":"a","targets":[{"model":"b","weight":-1}]}]', 'virtual_models.0.targets.0.weight', 'a number from 0'],
    ['[{"source":"a","target_model":"b","strategy":"luck"}]', 'virtual_models.0.strategy', 'one of round_robin'],
    ['[{"source":"a","target_model":"b","failover":"x"}]', 'virtual_models.0.failover', 'expected true or false'],
    ['[{"source":"a","colour":"red"}]', 'virtual_models.0.colour', 'unknown key'],
    ['[{"target_model":"b"}]', 'virtual_models.0.source', 'expected a name'],
    ['{"source":"a"}', 'virtual_models', 'a JSON array of objects'],
    ['fast', 'virtual_models', 'a JSON array of objects'],
  ])('that are invalid, as %s, are reported with their place', (text, path, message) => {
    const [problem] = problemsFrom({ env: { VIRTUAL_MODELS: text } });
    expect(problem).toMatchObject({ path, variable: 'VIRTUAL_MODELS' });
    expect(problem?.message).toContain(message);
  });
});

describe('failover', () => {
  test('has its defaults', () => {
    const { failover, models } = configFrom({});
    expect(failover).toMatchObject({ enabled: true, maxModels: 0, phrases: undefined });
    expect(failover.statuses).toEqual([429, ...Array.from({ length: 100 }, (_, n) => 500 + n)]);
    expect(models).toEqual({ enabledByDefault: true, listOnlyVirtual: false });
  });

  test('is set by variables', () => {
    const { failover, models } = configFrom({
      env: {
        FAILOVER_ENABLED: 'false',
        FAILOVER_MAX_ATTEMPTS: '3',
        FAILOVER_RETRY_ON_STATUSES: '429, 503',
        FAILOVER_RETRY_ON_ERRORS: 'too busy,model*gone',
        MODELS_ENABLED_BY_DEFAULT: 'false',
        KEEP_ONLY_ALIASES_AT_MODELS_ENDPOINT: 'true',
      },
    });
    expect(failover).toEqual({
      enabled: false,
      maxModels: 3,
      statuses: [429, 503],
      phrases: ['too busy', 'model*gone'],
    });
    expect(models).toEqual({ enabledByDefault: false, listOnlyVirtual: true });
    const none = configFrom({ env: { FAILOVER_RETRY_ON_STATUSES: '', FAILOVER_RETRY_ON_ERRORS: '' } });
    expect(none.failover).toMatchObject({ statuses: [], phrases: [] });
  });
});
