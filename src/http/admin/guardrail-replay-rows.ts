/** Runs of draft workflows over recorded requests as the admin API returns them. */
import { z } from 'zod';
import { replayVerdicts } from '../../commands/guardrails/replay/evaluate-exchange.ts';
import type { Replay } from '../../commands/guardrails/replay/replays.ts';
import type { ReplayResult } from '../../commands/guardrails/replay/result.ts';
import { timeText } from '../dates.ts';

const phase = z.enum(['prompt', 'response', 'stream']);
const counts = z.record(z.string(), z.int());

const guardrailRow = z.object({
  guardrail: z.string(),
  type: z.string(),
  phase,
  step: z.int(),
  runs: z.int(),
  verdicts: z.object({ allow: z.int(), warn: z.int(), respond: z.int(), block: z.int(), failure: z.int() }),
  edited: z.int().describe('runs that changed texts, the system text or headers'),
  findings: counts.describe('number of matches by kind'),
  average_ms: z.number(),
  longest_ms: z.number(),
});

const exampleRow = z.object({
  verdict: z.enum(replayVerdicts),
  exchange_id: z.string(),
  at: z.string(),
  guardrail: z.string().optional().describe('the guardrail that decided'),
  phase: phase.optional(),
  code: z.string().optional(),
  recorded: z
    .object({ verdict: z.enum(replayVerdicts), status: z.int() })
    .optional()
    .describe('what happened: the verdict of the guardrails that ran then, and the status of the answer (0: none)'),
  detail: z.string().describe('path of the request with its bodies'),
});

const sampleRow = z.object({
  state: z.enum(['not_requested', 'estimating', 'too_expensive', 'price_unknown', 'evaluated']),
  size: z.int().describe('requests on which the guardrails that call a model or a server run'),
  evaluated: z.int(),
  calls: z.int().describe('calls of models'),
  estimated_cost: z.number().nullable().describe('US dollars, before the run; null when a price is unknown'),
  cost: z
    .number()
    .nullable()
    .describe('US dollars, of the recorded usage; null until the run ends, and when part of it is unknown'),
});

const resultRow = z.object({
  requests: z.int().describe('of the draft: the sum of `verdicts` and `not_evaluated`'),
  verdicts: z
    .object({
      blocked: z.int(),
      failed: z.int(),
      responded: z.int(),
      warned: z.int(),
      changed: z.int(),
      passed: z.int(),
    })
    .describe('each request counts once, by its strongest verdict in the prompt phase and on its answer'),
  recorded_verdicts: z
    .record(z.string(), counts)
    .optional()
    .describe('by verdict of the draft: the requests by the verdict when they were recorded'),
  not_evaluated: counts.describe('by reason'),
  answers_not_evaluated: counts.describe('by reason; their requests count by the prompt phase alone'),
  other_workflow: z.int().describe('requests of the range for which another workflow applies'),
  without_earlier_turns: z.int(),
  unreadable: z.int().describe('requests with members that guardrails cannot read'),
  guardrails: z.array(guardrailRow),
  examples: z.array(exampleRow).describe('at most ten of each verdict, the strongest verdicts first'),
  sample: sampleRow.optional().describe('absent when no guardrail of the draft calls a model or a server'),
  truncated_at: z.string().optional().describe('`max_requests` was reached: `from` of a run over the rest'),
});

export const replayRow = z.object({
  id: z.string(),
  status: z.enum(['running', 'completed', 'cancelled', 'interrupted', 'failed']),
  started_at: z.string(),
  started_by: z.string(),
  duration_ms: z.int().optional(),
  error: z.string().optional(),
  draft_sha256: z.string(),
  from: z.string(),
  to: z.string(),
  user_path: z.string().optional(),
  sample: z.int(),
  max_cost: z.number().optional(),
  max_requests: z.int(),
  progress: z
    .object({ stage: z.enum(['estimating', 'running']), done: z.number().describe('from 0 to 1') })
    .optional()
    .describe('while it runs'),
  result: resultRow.optional().describe('of a running one: so far. Absent when the gateway ended without recording it'),
  links: z.object({ self: z.string() }),
});

export const replayListRow = replayRow.pick({
  id: true,
  status: true,
  started_at: true,
  started_by: true,
  links: true,
});

export function replayRowOf(replay: Replay): z.infer<typeof replayRow> {
  const { id, status, startedAt, actor, durationMs, error, facts, progress, result } = replay;
  return {
    id,
    status,
    started_at: timeText(startedAt),
    started_by: actor,
    ...(durationMs !== undefined && { duration_ms: durationMs }),
    ...(error !== undefined && { error }),
    draft_sha256: facts.draftSha256,
    from: timeText(facts.from),
    to: timeText(facts.until),
    ...(facts.userPath !== undefined && { user_path: facts.userPath }),
    sample: facts.sample,
    ...(facts.maxCost !== undefined && { max_cost: facts.maxCost }),
    max_requests: facts.maxRequests,
    ...(progress !== undefined && { progress }),
    ...(result !== undefined && { result: resultRowOf(result) }),
    links: { self: linkOf(id) },
  };
}

export function linkOf(id: string): string {
  return `/admin/guardrails/replay/${id}`;
}

export function resultRowOf(result: ReplayResult): z.infer<typeof resultRow> {
  const { requests, verdicts, otherWorkflow, withoutEarlierTurns, unreadable, sample, truncatedAt } = result;
  return {
    requests,
    verdicts,
    ...(result.recordedVerdicts !== undefined && { recorded_verdicts: result.recordedVerdicts }),
    not_evaluated: result.notEvaluated,
    answers_not_evaluated: result.answersNotEvaluated,
    other_workflow: otherWorkflow,
    without_earlier_turns: withoutEarlierTurns,
    unreadable,
    guardrails: result.guardrails.map(({ durationNs, longestNs, ...figures }) => ({
      ...figures,
      average_ms: milliseconds(durationNs / figures.runs),
      longest_ms: milliseconds(longestNs),
    })),
    examples: result.examples.map(({ exchangeId, at, ...decided }) => ({
      ...decided,
      exchange_id: exchangeId,
      at: timeText(at),
      detail: `/admin/audit/detail?log_id=${exchangeId}`,
    })),
    ...(sample !== undefined && {
      sample: {
        ...{ state: sample.state, size: sample.size, evaluated: sample.evaluated, calls: sample.calls },
        estimated_cost: dollars(sample.estimatedCost),
        cost: dollars(sample.cost),
      },
    }),
    ...(truncatedAt !== undefined && { truncated_at: timeText(truncatedAt) }),
  };
}

function milliseconds(nanoseconds: number): number {
  return Math.round(nanoseconds / 1000) / 1000;
}

function dollars(nanoDollars: string | null): number | null {
  return nanoDollars === null ? null : Number(nanoDollars) / 1e9;
}
