/** OpenAI's client through three guardrails. */
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

throughThreeGuardrails('as they arrive');
await import('../openai.test.ts');
await import('../openai-helpers.test.ts');
await import('../openai-conversations.test.ts');
await import('../openai-lifecycle.test.ts');
await import('../openai-stopped-streams.test.ts');
