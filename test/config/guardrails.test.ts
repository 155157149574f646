import { describe, expect, test } from 'vitest';
import { describeProblem } from '../../src/config/problem.ts';
import { configFrom, problemsFrom } from './load.ts';

const yaml = `
guardrails:
  enabled: true
  rules:
    - name: no-secrets
      type: string_replace
      config: { rules: "secret => ***" }
      phases: [prompt, Stream]
      step: 3
    - name: people
      type: presidio
      user_path: /team
      description: personal data
      config: { analyzer_url: "\${ANALYZER:-http://presidio:3000}", score_threshold: "\${SCORE:-0.7}" }
      fail_mode: open
      timeout_ms: 500
`;
const people = {
  name: 'people',
  type: 'presidio',
  userPath: '/team',
  description: 'personal data',
  config: { analyzer_url: 'http://presidio:3000', score_threshold: 0.7 },
  failMode: 'open',
  timeoutMs: 500,
  phases: undefined,
  step: undefined,
};

describe('guardrails of the configuration', () => {
  test('are none by default', () => {
    expect(configFrom({}).guardrails).toEqual([]);
  });

  test('come from the file, where references keep the type of their content', () => {
    const { guardrails, guardrailsEnabled } = configFrom({ yaml });
    expect(guardrailsEnabled).toBe(true);
    expect(guardrails[0]).toMatchObject({ name: 'no-secrets', phases: ['prompt', 'stream'], step: 3 });
    expect(guardrails[1]).toEqual(people);
  });

  test('come from a variable too, over those of the same name', () => {
    const rows = [{ name: 'no-secrets', type: 'pii', phases: [] }];
    const { guardrails } = configFrom({ yaml, env: { GUARDRAILS: JSON.stringify(rows) } });
    expect(guardrails).toEqual([people, expect.objectContaining({ type: 'pii', phases: [], config: {} })]);
  });

  test.each([
    ['{"a":"sk-hidden"', 'guardrails.rules (GUARDRAILS): expected a list of mappings'],
    ['["sk-hidden"]', 'guardrails.rules.0 (GUARDRAILS): expected a mapping of settings, got ****'],
    [
      '[{"name":"a","type":"b","config":"sk-hidden"}]',
      'guardrails.rules.0.config (GUARDRAILS): expected a mapping of settings of the type, got ****',
    ],
    ['[{"name":" ","type":"b"}]', 'guardrails.rules.0.name (GUARDRAILS): expected a name, got " "'],
    ['[{"name":"a"}]', 'guardrails.rules.0.type (GUARDRAILS): expected a guardrail type'],
    [
      '[{"name":"a","type":"b","phases":["later"]}]',
      'guardrails.rules.0.phases.0 (GUARDRAILS): expected one of prompt, response, stream, got "later"',
    ],
    [
      '[{"name":"a","type":"b","fail_mode":"half"}]',
      'guardrails.rules.0.fail_mode (GUARDRAILS): expected one of closed',
    ],
    [
      '[{"name":"a","type":"b","timeout_ms":-1}]',
      'guardrails.rules.0.timeout_ms (GUARDRAILS): expected a whole number',
    ],
    ['[{"name":"a","type":"b","colour":"sk-hidden"}]', 'guardrails.rules.0.colour (GUARDRAILS): unknown key "colour"'],
  ])('that are invalid are reported with their place, and without their secrets: %s', (text, message) => {
    const problems = problemsFrom({ env: { GUARDRAILS: text } }).map(describeProblem);
    expect(problems.join('\n')).toContain(message);
    expect(problems.join('\n')).not.toContain('hidden');
  });
});
