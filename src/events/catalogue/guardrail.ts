/**
 * The guardrail family: the guardrails that workflows refer to, on streams `guardrail-<name>`.
 * The exchange family: guardrails of a request and of its answer, on stream `exchange-<id>`.
 * The guardrail replay family: runs of a draft workflow over recorded requests, on streams `replay-<id>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';
import { workflowCreated, workflowPhases } from './workflow.ts';

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

/** What the draft would have done with a request, the strongest first. */
export const replayVerdicts = ['blocked', 'failed', 'responded', 'warned', 'changed', 'passed'] as const;

const count = () => z.number().int().min(0);
const time = () => z.number().describe('milliseconds since the epoch');
const byReason = () => z.record(z.string(), count());
const nanoDollars = () => z.string().nullable();

const guardrailFigures = z.object({
  guardrail: z.string(),
  type: z.string(),
  phase: z.enum(workflowPhases),
  step: count(),
  runs: count(),
  verdicts: z.object({ allow: count(), warn: count(), respond: count(), block: count(), failure: count() }),
  edited: count().describe('runs that changed texts, the system text or headers'),
  findings: byReason().describe('number of matches by kind'),
  durationNs: count().describe('the sum over its runs'),
  longestNs: count(),
});

const example = z.object({
  verdict: z.enum(replayVerdicts),
  exchangeId: z.string(),
  at: time(),
  guardrail: z.string().optional().describe('the guardrail that decided'),
  phase: z.enum(workflowPhases).optional(),
  code: z.string().optional(),
  recorded: z
    .object({
      verdict: z.enum(replayVerdicts).describe('of the guardrails that ran then; `passed` without any'),
      status: count().describe('of the answer; 0 when the client got none'),
    })
    .optional()
    .describe('what happened to the request; absent in older results'),
});

/** Contains no text of a request or of an answer. */
export const replayResult = z.object({
  requests: count().describe(
    'recorded requests of the draft within the range: the sum of the verdicts and of those not evaluated',
  ),
  verdicts: z.object({
    blocked: count(),
    failed: count(),
    responded: count(),
    warned: count(),
    changed: count(),
    passed: count(),
  }),
  recordedVerdicts: z
    .record(z.string(), byReason())
    .optional()
    .describe('by verdict of the draft: the requests by the verdict when they were recorded; absent in older results'),
  notEvaluated: byReason().describe('requests by the reason why they could not be evaluated'),
  answersNotEvaluated: byReason().describe(
    'answers by the reason why they could not be evaluated; their requests count by the prompt phase alone',
  ),
  otherWorkflow: count().describe(
    'requests of the range for which another workflow is more specific, or that are not in the scope',
  ),
  withoutEarlierTurns: count().describe('evaluated requests whose earlier turns are not part of their record'),
  unreadable: count().describe('evaluated requests with members that guardrails cannot read'),
  guardrails: z.array(guardrailFigures).readonly(),
  examples: z.array(example).readonly(),
  sample: z
    .object({
      state: z
        .enum(['not_requested', 'estimating', 'too_expensive', 'price_unknown', 'evaluated'])
        .describe('`estimating`: their cost is not known yet; `too_expensive`, `price_unknown`: they did not run'),
      size: count().describe('requests on which the guardrails that call a model or a server run'),
      evaluated: count(),
      calls: count().describe('calls of models'),
      estimatedCost: nanoDollars().describe(
        'before the run, each answer as long as allowed; null when a price is unknown',
      ),
      cost: nanoDollars().describe('of the recorded usage of the calls; null when part of it is unknown'),
    })
    .optional()
    .describe('absent when no guardrail of the draft calls a model or a server'),
  truncatedAt: time()
    .optional()
    .describe('time of the first request that was not read because `maxRequests` was reached'),
});

export const replayStarted = defineEvent({
  type: 'guardrail_replay.started',
  when: 'An administrator started a run of a draft workflow over recorded requests.',
  data: z.object({
    id: z.string(),
    scope: workflowCreated.data.shape.scope,
    payload: workflowCreated.data.shape.payload,
    draftSha256: z.string().describe('of the canonical JSON of scope, payload and guardrails, hexadecimal'),
    guardrails: z
      .array(guardrailSaved.data.omit({ secrets: true }))
      .readonly()
      .describe('the guardrails that the draft defines itself, without their secrets'),
    from: time().describe('the first moment of the range'),
    until: time().describe('the end of the range, exclusive'),
    userPath: z.string().optional().describe('only requests of this path and below it'),
    sample: count().describe('most requests on which guardrails that call a model or a server run'),
    maxCost: z.number().optional().describe('US dollars: no calls when their estimate is higher'),
    maxRequests: count(),
    gateway: z.string().optional().describe('id of the gateway that runs it'),
  }),
});

export const replayCancelRequested = defineEvent({
  type: 'guardrail_replay.cancel_requested',
  when: 'An administrator cancelled a run of another gateway.',
  data: z.object({}),
});

export const replayFinished = defineEvent({
  type: 'guardrail_replay.finished',
  when: 'A run of a draft workflow over recorded requests ended.',
  data: z.object({
    id: z.string(),
    outcome: z
      .enum(['completed', 'cancelled', 'interrupted', 'failed'])
      .describe('`interrupted`: the gateway stopped; the result has what was evaluated until then'),
    error: z.string().optional().describe('of a failed run'),
    durationMs: z.number(),
    result: replayResult,
  }),
});
