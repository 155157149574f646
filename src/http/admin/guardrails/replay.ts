/** `/admin/guardrails/replay`: runs of a draft workflow over recorded requests. */

import { z } from 'zod';
import type { SealerSource } from '../../../commands/credentials/sealed-credentials.ts';
import { type Guardrail, type GuardrailTypes, guardrailFrom } from '../../../commands/guardrails/guardrail.ts';
import { checkDraft, type DraftParts, type ReplayDraft } from '../../../commands/guardrails/replay/draft.ts';
import { replayVerdicts } from '../../../commands/guardrails/replay/evaluate-exchange.ts';
import type { GuardrailReplays, Replay } from '../../../commands/guardrails/replay/replays.ts';
import type { ReplayResult } from '../../../commands/guardrails/replay/result.ts';
import { type ReplayOptions, replayLimits } from '../../../commands/guardrails/replay/run-replay.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import { type ScopeTargets, workflowDraft } from '../../../commands/workflows/workflow-input.ts';
import type { EpochMs } from '../../../events/event.ts';
import type { ReplayRecords } from '../../../projections/guardrail-replays.ts';
import { globalAdmin, jsonAnswer, pathParameters, type Routes } from '../../api/route-schema.ts';
import { DAY_MS, dayOrTime, timeText } from '../../dates.ts';
import { optionalUserPath } from '../../request-head.ts';
import { eventContextOf } from '../../server.ts';
import { guardrailBody, guardrailInput } from './guardrails.ts';
import { workflowBody, workflowInput } from './workflows.ts';

/** Runs of draft workflows over recorded requests as the admin API returns them. */
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

const replayRow = z.object({
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

const replayListRow = replayRow.pick({
  id: true,
  status: true,
  started_at: true,
  started_by: true,
  links: true,
});

function replayRowOf(replay: Replay, basePath: string): z.infer<typeof replayRow> {
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
    links: { self: linkOf(id, basePath) },
  };
}

function linkOf(id: string, basePath: string): string {
  return `${basePath}/admin/guardrails/replay/${id}`;
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

/** The body of `POST /admin/guardrails/replay`. */
const { requests, sample } = replayLimits;

/** A draft: what `POST /admin/workflows` accepts, the name left out if you like, and guardrails of its own. */
const replayDraftBody = z.strictObject({
  workflow: workflowBody
    .extend({ name: z.string().nullish().describe('default: `draft`') })
    .describe('the draft, as for `POST /admin/workflows`; it is not saved'),
  guardrails: z
    .array(guardrailBody)
    .max(64)
    .nullish()
    .describe(
      'guardrails that the draft defines itself, as for `PUT /admin/guardrails`; they replace those in force with the same name',
    ),
});

export const replayBody = replayDraftBody.extend({
  from: z.string().describe('a time with its zone, or a day, which begins in UTC'),
  to: z.string().nullish().describe('exclusive; a day is included to its end. Default: now'),
  user_path: z.string().nullish().describe('only requests of this user path, with all paths below it'),
  sample: z
    .int()
    .min(0)
    .max(sample.most)
    .nullish()
    .describe(
      'most requests on which guardrails that call a model or a server run, which costs money. Default: 0, none',
    ),
  max_cost: z
    .number()
    .min(0)
    .nullish()
    .describe(
      'US dollars. No model is called when the estimated cost of the sample is higher or unknown. Default: any cost',
    ),
  max_requests: z.int().min(1).max(requests.most).nullish().describe(`default: ${requests.usual}`),
});

export interface DraftContext {
  readonly targets: ScopeTargets;
  readonly types: GuardrailTypes;
  readonly sealers: Pick<SealerSource, 'toSeal'>;
  /** In force. */
  guardrail(name: string): Guardrail | undefined;
}

/** @throws Refusal 400 that names the member. Whether its guardrails can run is checked later. */
export function replayDraft(body: z.infer<typeof replayDraftBody>, context: DraftContext): ReplayDraft {
  const { targets, types, sealers, guardrail } = context;
  const input = refusedWithin('workflow', () =>
    workflowInput({ ...body.workflow, name: body.workflow.name ?? 'draft' }),
  );
  const { scope, payload } = refusedWithin('workflow', () => workflowDraft(input, targets));
  const guardrails = (body.guardrails ?? []).map((given, place) =>
    refusedWithin(`guardrails.${place}`, () => {
      const own = guardrailInput(given);
      return guardrailFrom(own, types, guardrail(own.name), sealers);
    }),
  );
  return { scope, payload, guardrails };
}

/** @throws Refusal 400 */
export function replayOptions(body: z.infer<typeof replayBody>, now: number): ReplayOptions {
  const from = dayOrTime(body.from, 'from');
  const until = body.to == null ? now : dayOrTime(body.to, 'to') + (body.to.includes('T') ? 0 : DAY_MS);
  if (from >= until) throw refusals.invalidRequest("'from' must be before 'to'.", 'from');
  return {
    range: { from, until, userPath: optionalUserPath(body.user_path, 'user_path') },
    sample: body.sample ?? sample.usual,
    maxCost: body.max_cost ?? undefined,
    maxRequests: body.max_requests ?? requests.usual,
  };
}

/** What `make` returns; its refusal names the member within `member`. @throws Refusal */
function refusedWithin<Made>(member: string, make: () => Made | Refusal): Made {
  let made: Made | Refusal;
  try {
    made = make();
  } catch (error) {
    throw error instanceof Refusal ? error.within(member) : error;
  }
  if (made instanceof Refusal) throw made.within(member);
  return made;
}

interface ReplayRoutesOptions {
  readonly replays: GuardrailReplays;
  readonly draft: DraftContext & DraftParts;
  readonly recorded: { readonly state: ReplayRecords };
  now(): EpochMs;
}

const startReplay = globalAdmin('startGuardrailReplay', 'Run a draft workflow over recorded requests', {
  description:
    'Reports what the draft would have blocked, changed or passed. One run at a time. The draft is not saved, and no ' +
    'text of a request is in the result. Guardrails that call a model or a server run only on a `sample`.',
  body: replayBody,
  example: {
    workflow: {
      scope_user_path: '/team',
      workflow_payload: {
        features: { cache: true, audit: true, usage: true, guardrails: true },
        steps: [{ ref: 'no-secrets', phase: 'prompt' }],
      },
    },
    guardrails: [{ name: 'no-secrets', type: 'string_replace', config: { rules: 'secret', on_match: 'block' } }],
    from: '2026-03-01',
    to: '2026-03-02',
  },
  response: { 202: jsonAnswer('The run', replayRow) },
  errors: [409, 503],
});

const listReplays = globalAdmin('listGuardrailReplays', 'List the runs of draft workflows', {
  response: { 200: jsonAnswer('The newest 100, the newest first', z.array(replayListRow)) },
  errors: [503],
});

const getReplay = globalAdmin('getGuardrailReplay', 'Get the progress or the result of a run', {
  params: pathParameters({ id: 'Id of the run' }),
  response: { 200: jsonAnswer('The run; `interrupted` when the gateway stopped before its end', replayRow) },
  errors: [404, 503],
});

const cancelReplay = globalAdmin('cancelGuardrailReplay', 'Cancel a run', {
  description: 'The result so far is recorded. A run that has ended stays as it is.',
  params: pathParameters({ id: 'Id of the run' }),
  response: { 200: jsonAnswer('The run after its end', replayRow) },
  errors: [404, 503],
});

export function registerGuardrailReplay(admin: Routes, { replays, draft, recorded, now }: ReplayRoutesOptions): void {
  admin.post('/guardrails/replay', startReplay, async (request, reply) => {
    const options = replayOptions(request.body, now());
    const checked = checkDraft(replayDraft(request.body, draft), draft);
    if (checked instanceof Refusal) throw checked;
    const run = await replays.start(checked, options, eventContextOf(request));
    reply.status(202).header('location', linkOf(run.id, admin.basePath));
    return replayRowOf(run, admin.basePath);
  });

  admin.get('/guardrails/replay', listReplays, async () =>
    [...recorded.state.values()].reverse().map(
      ({ id, startedAt, actor, outcome, gateway }): z.infer<typeof replayListRow> => ({
        id,
        status: outcome ?? (replays.isRunning({ id, gateway }) ? 'running' : 'interrupted'),
        started_at: timeText(startedAt),
        started_by: actor,
        links: { self: linkOf(id, admin.basePath) },
      }),
    ),
  );

  admin.get('/guardrails/replay/:id', getReplay, async (request) =>
    found(request.params.id, await replays.get(request.params.id)),
  );

  admin.delete('/guardrails/replay/:id', cancelReplay, async (request) =>
    found(request.params.id, await replays.cancel(request.params.id, eventContextOf(request))),
  );

  /** @throws Refusal 404 */
  function found(id: string, replay: Awaited<ReturnType<GuardrailReplays['get']>>): z.infer<typeof replayRow> {
    if (replay === undefined) throw refusals.notFound('guardrail replay', id);
    return replayRowOf(replay, admin.basePath);
  }
}
