/** Keys, paths, policies, limits, prices, guardrails and virtual models of the seeded history. */

export interface KeyPlan {
  readonly name: string;
  readonly user_path: string;
  readonly labels?: readonly string[];
  readonly allowed_models?: readonly string[];
  readonly dashboard_access?: boolean;
}

export const keyPlans = {
  website: { name: 'Website assistant', user_path: '/customers/web', labels: ['production'] },
  mobile: { name: 'Mobile app (beta)', user_path: '/customers/mobile', labels: ['beta'] },
  support: { name: 'Support desk', user_path: '/customers/support', labels: ['production', 'personal-data'] },
  research: { name: 'Research notebooks', user_path: '/team/research', labels: ['research'] },
  platform: {
    name: 'CI of team platform',
    user_path: '/team/platform',
    labels: ['ci'],
    allowed_models: ['openai/gpt-5-mini', 'openai/text-embedding-3-small', 'groq/'],
  },
  finance: { name: 'Billing batch', user_path: '/team/finance', labels: ['batch'] },
  lead: { name: 'Lead of the teams', user_path: '/team', dashboard_access: true },
  mira: { name: 'Mira (support)', user_path: '/customers/support/mira' },
} as const satisfies Record<string, KeyPlan>;

export type KeyName = keyof typeof keyPlans;

/** Paths and bodies of the administrator's changes before the first request. */
export const preparations: readonly (readonly ['PUT' | 'POST', string, object])[] = [
  [
    'PUT',
    '/admin/users',
    { user_path: '/team/platform', allowed_models: ['openai/', 'groq/'], description: 'CI only' },
  ],
  ['PUT', '/admin/budgets/%2Fteam%2Ffinance/daily', { amount: 0.02 }],
  ['PUT', '/admin/budgets/%2Fteam%2Fresearch/monthly', { amount: 400 }],
  ['PUT', '/admin/rate-limits', { user_path: '/customers/mobile', limit_key: { period: 'minute' }, max_requests: 30 }],
  [
    'PUT',
    '/admin/virtual-models',
    {
      source: 'assistant',
      targets: [
        { provider: 'anthropic', model: 'claude-sonnet-5' },
        { provider: 'openai', model: 'gpt-5-mini' },
      ],
      strategy: 'failover',
    },
  ],
  [
    'PUT',
    '/admin/model-pricing-overrides',
    { selector: 'llamacpp/', pricing: { input_per_mtok: 0.05, output_per_mtok: 0.2 } },
  ],
  ['PUT', '/admin/guardrails', { name: 'personal-data', type: 'pii' }],
  [
    'PUT',
    '/admin/guardrails',
    { name: 'no-code-names', type: 'string_replace', config: { rules: 'Project Falcon', on_match: 'block' } },
  ],
  ['POST', '/admin/workflows', workflowOf('/customers/support', 'support', 'personal-data')],
  ['POST', '/admin/workflows', workflowOf('/team/platform', 'platform', 'no-code-names')],
];

/** The changes of yesterday. */
export const houseStyle: typeof preparations = [
  [
    'PUT',
    '/admin/guardrails',
    { name: 'house-style', type: 'string_replace', config: { rules: 'cheap => affordable\nclient => customer' } },
  ],
  ['POST', '/admin/workflows', workflowOf('/customers/web', 'website', 'house-style')],
];

function workflowOf(path: string, name: string, guardrail: string): object {
  return {
    scope_user_path: path,
    name,
    workflow_payload: {
      features: { cache: true, audit: true, usage: true, guardrails: true },
      steps: [{ ref: guardrail, phase: 'prompt' }],
    },
  };
}
