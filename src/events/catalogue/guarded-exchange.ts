/** The exchange family: guardrails of a request and of its answer, on stream `exchange-<id>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';
import { guardrailFailModes } from './guardrail.ts';
import { workflowPhases } from './workflow.ts';

/** From the weakest to the strongest. */
export const guardrailVerdicts = ['allow', 'warn', 'respond', 'failure', 'block'] as const;

const attempt = z.number().int().min(1).describe('1 for the first call to a provider, then counting up');

const guardrailRun = z.object({
  step: z.number().int().min(0),
  guardrail: z.string().describe('the name of the instance'),
  type: z.string(),
  verdict: z.enum(guardrailVerdicts),
  code: z.string().optional(),
  message: z.string().optional(),
  error: z.string().optional().describe('of a failure'),
  failMode: z.enum(guardrailFailModes).optional().describe('of a failure'),
  edited: z.boolean().describe('whether it changed texts, the system text or headers'),
  findings: z.record(z.string(), z.number().int()).optional().describe('number of matches by kind'),
  durationNs: z.number().int(),
});

export const guardrailApplied = defineEvent({
  type: 'guardrail.applied',
  when:
    'The guardrails of one phase have evaluated the request, before a provider is called, or an answer, before the end of it ' +
    'is sent to the client. Contains no text of either and no value that was found.',
  body: 'in the prompt phase, the request as the guardrails changed it; absent when they changed nothing',
  data: z.object({
    phase: z.enum(workflowPhases),
    attempt: attempt.optional().describe('the attempt whose answer was evaluated; absent in the prompt phase'),
    verdict: z.enum(guardrailVerdicts).describe('the strongest: block, failure, respond, warn, allow'),
    decidedBy: z.string().optional().describe('the guardrail with that verdict; absent for `allow`'),
    code: z.string().optional(),
    edited: z.boolean(),
    warnings: z.array(z.string()).readonly().optional().describe('the codes of all warnings, each once'),
    unreadable: z.array(z.string()).readonly().optional().describe('paths of members that guardrails cannot read'),
    runs: z.array(guardrailRun).readonly().describe('every guardrail that ran, in the order of the steps'),
  }),
});

export const placeholdersAssigned = defineEvent({
  type: 'placeholders.assigned',
  when: 'Guardrails replaced values of the request by placeholders, before a provider is called.',
  body: 'JSON array of `{"placeholder": …, "value": …}`, those of earlier turns included',
  data: z.object({ count: z.number().int().min(1) }),
});

export const frameDelivered = defineEvent({
  type: 'frame.delivered',
  when:
    'Bytes of a streamed answer that guardrails have evaluated are about to be sent to the client. They differ from the ' +
    'chunks of the provider where guardrails changed them. Only for attempts that are `guarded`.',
  body: 'the bytes for the client',
  data: z.object({
    attempt: z.number().int().min(0).describe('0 when a guardrail answered and no provider was called'),
    index: z.number().int().min(0),
  }),
});
