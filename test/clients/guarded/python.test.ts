/** pydantic-ai through three guardrails. */
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

throughThreeGuardrails('as they arrive');
await import('../python-pydantic-ai.test.ts');
