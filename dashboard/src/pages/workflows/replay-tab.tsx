import { useAnswer } from '../../api/use-answer.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { pageHref, parameter } from './address.ts';
import { ReplayForm } from './replay-form.tsx';
import { ReplayRun } from './replay-run.tsx';
import { statusTones } from './replay-words.ts';
import { useGuardrails } from './use-guardrails.ts';

/** Runs a draft over recorded requests; a run of the address is shown instead of the form. */
export function ReplayTab() {
  const run = parameter('run');
  return run === undefined ? <NewReplay /> : <ReplayRun key={run} id={run} />;
}

function NewReplay() {
  const { data, error, since, reload } = useGuardrails();
  return (
    <div class="wf-panels">
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data !== undefined && <ReplayForm data={data} />}
      <ReplayList />
    </div>
  );
}

function ReplayList() {
  const { data, error, since, reload } = useAnswer('/admin/guardrails/replay', {}, { refreshMs: 10_000 });
  return (
    <Panel title="Runs">
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data?.length === 0 && <EmptyState title="No draft has been run yet." />}
      {data !== undefined && data.length > 0 && (
        <div class="plain-table-box" tabIndex={0} role="group" aria-label="Runs">
          <table class="plain-table">
            <thead>
              <tr>
                <th scope="col">Started</th>
                <th scope="col">State</th>
                <th scope="col">By</th>
              </tr>
            </thead>
            <tbody>
              {data.map(({ id, status, started_at: at, started_by: by }) => (
                <tr key={id}>
                  <th scope="row">
                    <a href={pageHref('replay', { run: id })}>
                      <Time at={at} />
                    </a>
                  </th>
                  <td>
                    <Badge tone={statusTones[status]}>{status}</Badge>
                  </td>
                  <td>
                    <Recorded text={by} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
