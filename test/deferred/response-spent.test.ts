import { describe, expect, test } from 'vitest';
import { responseSpent } from '../../src/commands/deferred/deferred-usage.ts';
import type { OpenWork } from '../../src/projections/deferred-usage.ts';

const work: OpenWork = {
  kind: 'response',
  workId: 'resp_1',
  exchangeId: '01900000-0000-7000-8000-000000000001',
  actor: 'system',
  since: 0,
  requestId: 'r',
  provider: 'openai',
  providerType: 'openai',
  model: 'm',
  endpoint: '/v1/responses',
  parts: [{ model: 'm', answers: 1, inputTokens: 8, outputTokens: 1024 }],
};
const estimatedTokens = (text: string) => [{ type: 'message', content: [{ type: 'output_text', text }] }];

describe('a response in the background without usage', () => {
  test('is charged with the estimate for its answer when it was cancelled', () => {
    const [spent] = responseSpent(work, 'cancelled', { usage: null });
    expect(spent?.estimate).toEqual({ inputTokens: 8, outputTokens: 1024 });
  });

  test('is charged for its output when that is more', () => {
    const [spent] = responseSpent(work, 'cancelled', { output: estimatedTokens('word '.repeat(8000)) });
    expect(spent?.estimate?.outputTokens).toBe(10_000);
  });

  test('is charged for its output when it was completed', () => {
    const [spent] = responseSpent(work, 'completed', { output: estimatedTokens('word') });
    expect(spent?.estimate).toEqual({ inputTokens: 8, outputTokens: 1 });
  });

  test('costs nothing when it failed', () => {
    expect(responseSpent(work, 'failed', {})).toEqual([]);
  });
});
