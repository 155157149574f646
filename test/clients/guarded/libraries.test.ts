/** Client libraries through three guardrails; two of the libraries in each run. */
import { someOf } from '../../support/seed.ts';
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

const libraries = someOf(
  [
    [() => import('../agents.test.ts'), () => import('../conversations.test.ts')],
    [() => import('../ai-sdk.test.ts'), () => import('../ai-sdk-responses.test.ts')],
    [() => import('../anthropic.test.ts')],
    [() => import('../conformance.test.ts')],
    [() => import('../langchain.test.ts')],
    [
      () => import('../openai.test.ts'),
      () => import('../openai-helpers.test.ts'),
      () => import('../openai-conversations.test.ts'),
      () => import('../openai-lifecycle.test.ts'),
      () => import('../openai-stopped-streams.test.ts'),
    ],
    [() => import('../python-pydantic-ai.test.ts')],
  ],
  undefined,
  2,
);

throughThreeGuardrails('as they arrive');
for (const load of libraries.flat()) await load();
