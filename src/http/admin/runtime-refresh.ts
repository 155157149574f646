/** Reads the gateway's state again: the providers' model lists, and everything folded from the log. */
import { z } from 'zod';

const stepStatus = z.enum(['ok', 'partial', 'failed', 'skipped']);

const refreshStep = z.object({
  name: z.string(),
  status: stepStatus,
  message: z.string().optional(),
  error: z.string().optional(),
  duration_ms: z.int(),
});

export const refreshReport = z.object({
  status: z.enum(['ok', 'partial', 'failed']),
  started_at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
  duration_ms: z.int(),
  model_count: z.int(),
  provider_count: z.int(),
  steps: z.array(refreshStep),
});

export type RefreshReport = z.infer<typeof refreshReport>;

/** The outcome of a step that did not throw. */
export interface StepOutcome {
  readonly status: z.infer<typeof stepStatus>;
  readonly message?: string;
}

export interface RefreshPlan {
  /** In this order; a failed step does not stop the following ones. */
  readonly steps: readonly { readonly name: string; run(): Promise<StepOutcome> }[];
  /** Counts after the refresh. */
  counts(): { readonly models: number; readonly providers: number };
}

/** @returns a refresh function. Calls run one at a time; a call during a refresh waits for it and then runs its own. */
export function createRefresh(plan: RefreshPlan): () => Promise<RefreshReport> {
  let before: Promise<unknown> = Promise.resolve();
  return () => {
    const report = before.then(() => refresh(plan));
    before = report.catch(() => {});
    return report;
  };
}

async function refresh({ steps, counts }: RefreshPlan): Promise<RefreshReport> {
  const startedAt = new Date();
  const begun = performance.now();
  const reportedSteps: RefreshReport['steps'] = [];
  for (const { name, run } of steps) {
    const stepBegun = performance.now();
    const duration = () => Math.round(performance.now() - stepBegun);
    try {
      reportedSteps.push({ name, ...(await run()), duration_ms: duration() });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      reportedSteps.push({ name, status: 'failed', error: message, duration_ms: duration() });
    }
  }
  const { models, providers } = counts();
  const hasFailed =
    reportedSteps.some(({ name, status }) => name === 'providers' && status === 'failed') && models === 0;
  const isWhole = reportedSteps.every(({ status }) => status === 'ok' || status === 'skipped');
  return {
    status: hasFailed ? 'failed' : isWhole ? 'ok' : 'partial',
    started_at: startedAt.toISOString(),
    finished_at: new Date().toISOString(),
    duration_ms: Math.round(performance.now() - begun),
    model_count: models,
    provider_count: providers,
    steps: reportedSteps,
  };
}
