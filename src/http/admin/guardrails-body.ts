/** The bodies of `PUT` and `DELETE /admin/guardrails`. */
import { z } from 'zod';
import type { GuardrailInput } from '../../commands/guardrails/guardrail.ts';
import { optionalUserPath } from '../request-head.ts';

export const guardrailBody = z.strictObject({
  name: z.string(),
  type: z.string(),
  description: z.string().nullish(),
  user_path: z.string().nullish().describe("of the guardrail's own calls; default: the path of the caller"),
  config: z.record(z.string(), z.unknown()).nullish().describe('the settings of the type'),
  fail_mode: z.string().nullish().describe('`closed` or `open`; default: `closed`'),
  timeout_ms: z.number().nullish().describe('default: 0, no time limit'),
});

export const guardrailRemovalBody = z.strictObject({ name: z.string() });

/** @throws Refusal 400 */
export function guardrailInput(body: z.infer<typeof guardrailBody>): GuardrailInput {
  return {
    name: body.name,
    type: body.type,
    description: body.description ?? undefined,
    userPath: optionalUserPath(body.user_path, 'user_path'),
    config: body.config ?? undefined,
    failMode: body.fail_mode ?? undefined,
    timeoutMs: body.timeout_ms ?? undefined,
  };
}
