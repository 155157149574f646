/** The reading anew of what the gateway knows: the providers' model lists, and all that is folded from the log. */

type StepStatus = 'ok' | 'partial' | 'failed' | 'skipped';

export interface RefreshStep {
  readonly name: string;
  readonly status: StepStatus;
  readonly message?: string;
  readonly error?: string;
  readonly duration_ms: number;
}

export interface RefreshReport {
  readonly status: 'ok' | 'partial' | 'failed';
  readonly started_at: string;
  readonly finished_at: string;
  readonly duration_ms: number;
  readonly model_count: number;
  readonly provider_count: number;
  readonly steps: readonly RefreshStep[];
}

/** What came of a step that did not throw. */
export interface StepOutcome {
  readonly status: StepStatus;
  readonly message?: string;
}

export interface RefreshPlan {
  /** In this order; one that fails does not keep the next from being taken. */
  readonly steps: readonly { readonly name: string; run(): Promise<StepOutcome> }[];
  /** What is known afterwards. */
  counts(): { readonly models: number; readonly providers: number };
}

/** @returns a refresh of which one runs at a time: whoever asks during one waits for it, and then for the own */
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
  const taken: RefreshStep[] = [];
  for (const { name, run } of steps) {
    const stepBegun = performance.now();
    const duration = () => Math.round(performance.now() - stepBegun);
    try {
      taken.push({ name, ...(await run()), duration_ms: duration() });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      taken.push({ name, status: 'failed', error: message, duration_ms: duration() });
    }
  }
  const { models, providers } = counts();
  const hasFailed = taken.some(({ name, status }) => name === 'providers' && status === 'failed') && models === 0;
  const isWhole = taken.every(({ status }) => status === 'ok' || status === 'skipped');
  return {
    status: hasFailed ? 'failed' : isWhole ? 'ok' : 'partial',
    started_at: startedAt.toISOString(),
    finished_at: new Date().toISOString(),
    duration_ms: Math.round(performance.now() - begun),
    model_count: models,
    provider_count: providers,
    steps: taken,
  };
}
