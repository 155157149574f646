/** The guardrail family: the guardrails that workflows refer to, on streams `guardrail-<name>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

/** Whether a request continues without a guardrail that failed. */
export const guardrailFailModes = ['closed', 'open'] as const;

export const guardrailSaved = defineEvent({
  type: 'guardrail.saved',
  when:
    'An administrator created or changed a guardrail. The event contains its complete definition, with encrypted ' +
    'secrets.',
  data: z.object({
    name: z.string(),
    type: z.string(),
    description: z.string().optional(),
    userPath: z.string().optional().describe("of the guardrail's own calls; absent: the path of the caller"),
    config: z.record(z.string(), z.unknown()).describe('the settings of the type, without secrets'),
    secrets: z
      .record(z.string(), z.string())
      .optional()
      .describe('the secret settings, encrypted: `v1.<id of the key>.<nonce, ciphertext and tag, base64url>`'),
    failMode: z
      .enum(guardrailFailModes)
      .describe('`closed`: a request fails with a guardrail that failed; `open`: it continues'),
    timeoutMs: z.number().int().min(0).describe('0: no time limit'),
  }),
});

export const guardrailRemoved = defineEvent({
  type: 'guardrail.removed',
  when: 'An administrator removed a guardrail.',
  data: z.object({ name: z.string() }),
});
