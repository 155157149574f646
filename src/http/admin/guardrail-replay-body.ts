/** The body of `POST /admin/guardrails/replay`. */
import { z } from 'zod';
import type { SealerSource } from '../../commands/credentials/sealed-credentials.ts';
import { type Guardrail, type GuardrailTypes, guardrailFrom } from '../../commands/guardrails/guardrail.ts';
import type { ReplayDraft } from '../../commands/guardrails/replay/draft.ts';
import { type ReplayOptions, replayLimits } from '../../commands/guardrails/replay/run-replay.ts';
import { Refusal, refusals } from '../../commands/refusal.ts';
import { type ScopeTargets, workflowDraft } from '../../commands/workflows/workflow-input.ts';
import { DAY_MS, dayOrTime } from '../dates.ts';
import { optionalUserPath } from '../request-head.ts';
import { guardrailBody, guardrailInput } from './guardrails-body.ts';
import { workflowBody, workflowInput } from './workflows-body.ts';

const { requests, sample } = replayLimits;

/** A draft: what `POST /admin/workflows` accepts, the name left out if you like, and guardrails of its own. */
export const replayDraftBody = z.strictObject({
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
