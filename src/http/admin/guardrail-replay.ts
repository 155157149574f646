/** `/admin/guardrails/replay`: runs of a draft workflow over recorded requests. */
import { z } from 'zod';
import { checkDraft, type DraftParts } from '../../commands/guardrails/replay/draft.ts';
import type { GuardrailReplays } from '../../commands/guardrails/replay/replays.ts';
import { Refusal, refusals } from '../../commands/refusal.ts';
import type { ReplayRecords } from '../../projections/guardrail-replays.ts';
import { globalAdmin } from '../api/declare.ts';
import { jsonAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';
import { eventContextOf } from '../server.ts';
import { type DraftContext, replayBody, replayDraft, replayOptions } from './guardrail-replay-body.ts';
import { linkOf, replayListRow, replayRow, replayRowOf } from './guardrail-replay-rows.ts';

export interface ReplayRoutesOptions {
  readonly replays: GuardrailReplays;
  readonly draft: DraftContext & DraftParts;
  readonly recorded: { readonly state: ReplayRecords };
  /** Milliseconds since the epoch. */
  now(): number;
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
    reply.status(202).header('location', linkOf(run.id));
    return replayRowOf(run);
  });

  admin.get('/guardrails/replay', listReplays, async () =>
    [...recorded.state.values()].reverse().map(
      ({ id, startedAt, actor, outcome, gateway }): z.infer<typeof replayListRow> => ({
        id,
        status: outcome ?? (replays.isRunning({ id, gateway }) ? 'running' : 'interrupted'),
        started_at: timeText(startedAt),
        started_by: actor,
        links: { self: linkOf(id) },
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
    return replayRowOf(replay);
  }
}
