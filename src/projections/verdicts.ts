/** The runs of guardrails on one request, and their form in the audit log and in live logs. */
import type { z } from 'zod';
import { guardrailApplied } from '../events/catalogue/guardrail.ts';
import type { RecordedEvent } from '../events/event.ts';
import { isA } from './projection.ts';

export type Applied = z.infer<typeof guardrailApplied.data>;

/** Unknown values are empty. `attempt` is 0 in the prompt phase. */
export interface VerdictRow {
  readonly guardrail: string;
  readonly type: string;
  readonly phase: string;
  readonly attempt: number;
  readonly step: number;
  readonly verdict: string;
  readonly code: string;
  readonly message: string;
  readonly error: string;
  readonly fail_mode: string;
  readonly edited: number;
  /** Number of matches by kind. */
  readonly findings: Readonly<Record<string, number>>;
  readonly duration_ns: number;
  readonly decided: number;
}

/** The index of the run with the verdict of the phase; -1 for `allow`. */
export function decidingRun({ decidedBy, verdict, runs }: Pick<Applied, 'decidedBy' | 'verdict' | 'runs'>): number {
  return runs.findIndex((run) => run.guardrail === decidedBy && run.verdict === verdict);
}

/** Of the events of one request, in order. */
export function verdictsIn(events: readonly RecordedEvent[]): VerdictRow[] {
  return events.flatMap((event) => (isA(event, guardrailApplied) ? verdictsOf(event.data) : []));
}

export function verdictsOf(applied: Applied): VerdictRow[] {
  const deciding = decidingRun(applied);
  return applied.runs.map((run, index) => ({
    guardrail: run.guardrail,
    type: run.type,
    phase: applied.phase,
    attempt: applied.attempt ?? 0,
    step: run.step,
    verdict: run.verdict,
    code: run.code ?? '',
    message: run.message ?? '',
    error: run.error ?? '',
    fail_mode: run.failMode ?? '',
    edited: Number(run.edited),
    findings: run.findings ?? {},
    duration_ns: run.durationNs,
    decided: Number(index === deciding),
  }));
}

/** One run as administrators get it. Empty members are omitted. @param index among the runs of the request */
export function guardrailEntry(verdict: VerdictRow, index: number): Record<string, unknown> {
  const { phase, attempt, step, guardrail, type, verdict: action, decided, edited, findings } = verdict;
  return {
    seq: index + 1,
    phase,
    attempt: attempt === 0 ? undefined : attempt,
    step,
    instance: guardrail,
    type,
    action,
    decided: decided === 1 || undefined,
    code: verdict.code || undefined,
    message: verdict.message || undefined,
    error: verdict.error || undefined,
    fail_mode: verdict.fail_mode || undefined,
    edited: edited === 1,
    target: phase === 'prompt' ? 'request' : 'response',
    findings: Object.keys(findings).length === 0 ? undefined : findings,
    duration_ns: verdict.duration_ns,
  };
}
