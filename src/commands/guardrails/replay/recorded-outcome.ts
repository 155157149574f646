/** What happened to a request when it was recorded, in the words of a replay. */
import { guardrailApplied, type guardrailVerdicts } from '../../../events/catalogue/guarded-exchange.ts';
import { replayVerdicts } from '../../../events/catalogue/guardrail-replay.ts';
import { isObject } from '../../../json/is-object.ts';
import type { ReplayedExchange } from './recorded-requests.ts';

export interface RecordedOutcome {
  /** The strongest of the guardrails that ran; `passed` without any. */
  readonly verdict: (typeof replayVerdicts)[number];
  /** Of the answer; 0 when the client got none. */
  readonly status: number;
}

const verdictOf = {
  block: 'blocked',
  failure: 'failed',
  respond: 'responded',
  warn: 'warned',
} as const satisfies Partial<Record<(typeof guardrailVerdicts)[number], RecordedOutcome['verdict']>>;

export function recordedOutcome({ recorded: { end }, events }: ReplayedExchange): RecordedOutcome {
  let verdict: RecordedOutcome['verdict'] = 'passed';
  for (const event of events) {
    if (event.type !== guardrailApplied.type) continue;
    const { verdict: given, edited } = guardrailApplied.data.parse(event.data);
    const own = given === 'allow' ? (edited ? 'changed' : 'passed') : verdictOf[given];
    if (replayVerdicts.indexOf(own) < replayVerdicts.indexOf(verdict)) verdict = own;
  }
  const status = isObject(end?.data) ? end.data['status'] : undefined;
  return { verdict, status: typeof status === 'number' ? status : 0 };
}
