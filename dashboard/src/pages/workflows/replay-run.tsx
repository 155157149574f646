import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatDuration } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { Money, Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { useChange } from '../../ui/use-change.ts';
import { pageHref } from './address.ts';
import { ReplayReport } from './replay-report.tsx';
import { type Replay, type ReplayResult, statusTones } from './replay-words.ts';

const REFRESH_MS = 1000;

/** One run: its progress, then its report. */
export function ReplayRun({ id }: { readonly id: string }) {
  const at = `/admin/guardrails/replay/${encodeURIComponent(id)}`;
  const [isRunning, setRunning] = useState(true);
  const { data, error, since, reload } = useAnswer(
    { of: '/admin/guardrails/replay/{id}', at },
    {},
    { refreshMs: isRunning ? REFRESH_MS : undefined },
  );
  if (data !== undefined && (data.status === 'running') !== isRunning) setRunning(data.status === 'running');
  const { error: problem, isSending, send } = useChange(reload);
  return (
    <>
      <p class="wf-back">
        <a href={pageHref('replay')}>Draft and all runs</a>
      </p>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data !== undefined && (
        <div class="wf-panels">
          <Panel
            title="Run of a draft"
            actions={
              data.status === 'running' && (
                <Button
                  disabled={isSending}
                  onClick={() => send(() => sendChange({ method: 'DELETE', of: '/admin/guardrails/replay/{id}', at }))}
                >
                  Cancel the run
                </Button>
              )
            }
          >
            {problem !== undefined && <ErrorPanel error={problem} />}
            <RunFacts run={data} />
          </Panel>
          {data.result !== undefined && <ReplayReport result={data.result} isRunning={data.status === 'running'} />}
        </div>
      )}
    </>
  );
}

function RunFacts({ run }: { readonly run: Replay }) {
  const { status, progress, result } = run;
  return (
    <dl class="wf-facts">
      <dt>State</dt>
      <dd>
        <span role="status">
          <Badge tone={statusTones[status]}>{status}</Badge>
        </span>{' '}
        {progress !== undefined && <Progress progress={progress} />}
        {run.duration_ms !== undefined && `in ${formatDuration(run.duration_ms)}`}
      </dd>
      {run.error !== undefined && (
        <>
          <dt>Error</dt>
          <dd class="wf-problem">
            <Recorded text={run.error} />
          </dd>
        </>
      )}
      <dt>Requests of</dt>
      <dd>
        <Time at={run.from} /> to <Time at={run.to} />
        {run.user_path !== undefined && (
          <>
            , <Recorded text={run.user_path} /> and paths below it
          </>
        )}
      </dd>
      <dt>Started</dt>
      <dd>
        <Time at={run.started_at} /> by <Recorded text={run.started_by} />
      </dd>
      {result?.truncated_at !== undefined && (
        <>
          <dt>Not complete</dt>
          <dd>
            {run.max_requests} requests were read. The next run begins at <Time at={result.truncated_at} />.
          </dd>
        </>
      )}
      {result?.sample !== undefined && <SampleFacts sample={result.sample} />}
      <dt>Draft</dt>
      <dd class="wf-id">
        <code title="SHA-256 of the draft">{run.draft_sha256.slice(0, 16)}…</code>
      </dd>
    </dl>
  );
}

function Progress({ progress: { stage, done } }: { readonly progress: NonNullable<Replay['progress']> }) {
  return (
    <>
      <progress class="wf-progress" max={1} value={done} aria-label="Progress" /> {Math.floor(done * 100)} %
      {stage === 'estimating' && ', estimating the cost'}
    </>
  );
}

const sampleStates: Readonly<Record<NonNullable<ReplayResult['sample']>['state'], string>> = {
  not_requested: 'Guardrails that call a model or a server did not run: no sample was requested.',
  estimating: 'The cost is being estimated.',
  too_expensive: 'No model was called: the estimated cost is above the limit.',
  price_unknown: 'No model was called: a price is unknown.',
  evaluated: 'Guardrails that call a model or a server ran on the sample.',
};

function SampleFacts({ sample }: { readonly sample: NonNullable<ReplayResult['sample']> }) {
  return (
    <>
      <dt>Sample</dt>
      <dd>
        {sampleStates[sample.state]} {sample.evaluated} of {sample.size} requests, {sample.calls} calls, estimated{' '}
        <Money dollars={sample.estimated_cost} />, cost <Money dollars={sample.cost} />.
      </dd>
    </>
  );
}
