/** OpenAI's client through three guardrails that read streams as a whole. */
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

throughThreeGuardrails('collected');
await import('../openai.test.ts');
await import('../openai-helpers.test.ts');
await import('../openai-conversations.test.ts');
await import('../openai-lifecycle.test.ts');
