/** OpenAI's agents SDK through three guardrails. */
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

throughThreeGuardrails('as they arrive');
await import('../agents.test.ts');
await import('../conversations.test.ts');
