/** Budgets and rate limits as the configuration declares them. */
import { describe, expect, test } from 'vitest';
import { configFrom, problemsFrom } from './load.ts';

const reservations = { maxWaitMs: 30_000, sendsLimits: true, usualOutput: 32_768 };

describe('budgets', () => {
  test('are declared in the file, by the name of their period or by its seconds', () => {
    const { budgets } = configFrom({
      yaml: [
        'budgets:',
        '  user_paths:',
        '    - path: team/alpha',
        '      limits:',
        '        - { period: daily, amount: 10 }',
        '        - { period_seconds: 5400, amount: "0.5" }',
        '  labels:',
        '    - { label: batch, limits: [{ period: Month, amount: 3 }] }',
      ].join('\n'),
    });
    expect(budgets).toEqual({
      enabled: true,
      reservations,
      declared: [
        { scope: 'user_path', subject: 'team/alpha', period: 'daily', amount: 10 },
        { scope: 'user_path', subject: 'team/alpha', period: '5400', amount: 0.5 },
        { scope: 'label', subject: 'batch', period: 'Month', amount: 3 },
      ],
    });
  });

  test('are declared in variables, whose path replaces that of the file', () => {
    const { budgets } = configFrom({
      yaml: [
        'budgets:',
        '  user_paths:',
        '    - { path: /team/alpha/, limits: [{ period: daily, amount: 1 }] }',
        '    - { path: /other, limits: [{ period: daily, amount: 2 }] }',
      ].join('\n'),
      env: {
        SET_BUDGET_TEAM__ALPHA: 'daily=10, weekly=50',
        SET_BUDGET_: 'monthly=1000',
        SET_BUDGET_JSON: '[{"period_seconds":90,"amount":7}]',
        SET_BUDGET_EMPTY: '',
      },
    });
    expect(budgets.declared.map(({ subject, period, amount }) => [subject, period, amount])).toEqual([
      ['/other', 'daily', 2],
      ['/', 'monthly', 1000],
      ['/json', '90', 7],
      ['/team/alpha', 'daily', 10],
      ['/team/alpha', 'weekly', 50],
    ]);
  });

  test.each([
    ['SET_BUDGET_A', 'yearly=10', 'period'],
    ['SET_BUDGET_A', 'daily', 'amount'],
    ['SET_BUDGET_A', 'daily=0', 'amount'],
    ['SET_BUDGET_A', 'daily=ten', 'amount'],
    ['SET_BUDGET_A', '[{"amount":1}]', 'limits'],
    ['SET_BUDGET_A', '[not json', 'limits'],
  ])('are refused: %s=%s', (variable, value, part) => {
    const [problem] = problemsFrom({ env: { [variable]: value } });
    expect(problem).toMatchObject({ variable, source: 'environment' });
    expect(problem?.path).toContain(part);
  });

  test('are off when they are switched off, and when usage is not counted', () => {
    expect(configFrom({ env: { BUDGETS_ENABLED: 'false' } }).budgets.enabled).toBe(false);
    const uncounted = configFrom({ env: { USAGE_ENABLED: 'false' } });
    expect(uncounted.budgets.enabled).toBe(false);
    expect(uncounted.notices.join()).toContain('USAGE_ENABLED');
    expect(configFrom({}).budgets).toEqual({ enabled: true, declared: [], reservations });
  });
});

describe('rate limits', () => {
  test('are declared in the file for paths, providers and models', () => {
    const { rateLimits } = configFrom({
      yaml: [
        'rate_limits:',
        '  user_paths:',
        '    - { path: /, limits: [{ period: minute, max_requests: 10, max_tokens: 500 }] }',
        '  providers:',
        '    - { name: openai, limits: [{ period: concurrent, max_requests: 4 }] }',
        '  models:',
        '    - { model: openai/gpt-5, limits: [{ period_seconds: 90, max_tokens: 9 }] }',
      ].join('\n'),
    });
    expect(rateLimits).toEqual({
      enabled: true,
      declared: [
        { scope: 'user_path', subject: '/', period: 'minute', maxRequests: 10, maxTokens: 500 },
        { scope: 'provider', subject: 'openai', period: 'concurrent', maxRequests: 4, maxTokens: null },
        { scope: 'model', subject: 'openai/gpt-5', period: '90', maxRequests: null, maxTokens: 9 },
      ],
    });
  });

  test('are declared in variables', () => {
    const { rateLimits } = configFrom({
      env: {
        SET_RATE_LIMIT_TEAM__ALPHA: 'rpm=100,tpm=50000,rpd=10000,concurrent=10',
        SET_PROVIDER_RATE_LIMIT_OPENAI_EU: 'TPH=9',
      },
    });
    expect(
      rateLimits.declared.map(({ scope, subject, period, maxRequests, maxTokens }) => {
        return [scope, subject, period, maxRequests, maxTokens];
      }),
    ).toEqual([
      ['user_path', '/team/alpha', 'minute', 100, 50_000],
      ['user_path', '/team/alpha', 'day', 10_000, null],
      ['user_path', '/team/alpha', 'concurrent', 10, null],
      ['provider', 'openai-eu', 'hour', null, 9],
    ]);
  });

  test.each([
    ['SET_RATE_LIMIT_A', 'rps=1'],
    ['SET_RATE_LIMIT_A', 'rpm=0'],
    ['SET_RATE_LIMIT_A', 'rpm=1.5'],
    ['SET_RATE_LIMIT_A', 'rpm'],
    ['SET_PROVIDER_RATE_LIMIT_A', 'tpm=many'],
  ])('are refused: %s=%s', (variable, value) => {
    expect(problemsFrom({ env: { [variable]: value } })[0]).toMatchObject({ variable });
  });

  test('are off when they are switched off', () => {
    expect(configFrom({ env: { RATE_LIMITS_ENABLED: 'off' } }).rateLimits.enabled).toBe(false);
  });
});
