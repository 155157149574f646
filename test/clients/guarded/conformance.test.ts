/** Conformance checkers through three guardrails. */
import { throughThreeGuardrails } from '../../support/three-guardrails.ts';

throughThreeGuardrails('as they arrive');
await import('../conformance.test.ts');
