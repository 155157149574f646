/** Three guardrails that call nothing: ten literals, two patterns, and all recognisers of personal data. */
const literals = Array.from({ length: 10 }, (_, index) => `Falcon ${index} => project ${index}`).join('\n');
const patterns = '\\b(\\d{3})-(\\d{4})\\b => $2\n(?i)project [a-z]{3,20} => project';
const everyone = ['system', 'user', 'assistant', 'tool'];

export const guardrailsOfBenchmark = [
  { type: 'string_replace', config: { rules: literals, roles: everyone } },
  { type: 'string_replace', config: { mode: 'regex', rules: patterns, roles: everyone } },
  { type: 'pii', config: {} },
] as const;
