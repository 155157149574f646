/** OpenAI's client through three guardrails that read streams as a whole; two of its files in each run. */
import { someOf } from '../../support/seed.ts';
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

const files = someOf(
  [
    () => import('../openai.test.ts'),
    () => import('../openai-helpers.test.ts'),
    () => import('../openai-conversations.test.ts'),
    () => import('../openai-lifecycle.test.ts'),
  ],
  undefined,
  2,
);

throughThreeGuardrails('collected');
for (const load of files) await load();
