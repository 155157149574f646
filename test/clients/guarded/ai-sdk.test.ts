/** The AI SDK through three guardrails. */
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

throughThreeGuardrails('as they arrive');
await import('../ai-sdk.test.ts');
await import('../ai-sdk-responses.test.ts');
