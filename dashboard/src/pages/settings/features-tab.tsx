import { useState } from 'preact/hooks';
import { isGlobal } from '../../api/access.ts';
import type { Answer, AnswerOf, Operation } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { type Loaded, useAnswer } from '../../api/use-answer.ts';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { useChange } from '../../ui/use-change.ts';
import { effectOf, toneOf } from './feature-words.ts';

/** The switches of the gateway, those that can be changed now, and the refresh. */
export function FeaturesTab() {
  const config = useAnswer('/admin/runtime/config');
  // The panels below would be moved by the rows of the first one.
  const hasRows = config.data !== undefined || config.error !== undefined;
  return (
    <div class="settings-panels">
      <Features config={config} />
      {isGlobal.value && hasRows && <RuntimeSettings />}
      {isGlobal.value && hasRows && <Refresh />}
    </div>
  );
}

function Features({ config }: { readonly config: Loaded<Answer<'/admin/runtime/config'>> }) {
  const { data, error, since, cancel, reload } = config;
  return (
    <Panel title="Features">
      <p class="settings-note">
        The names are environment variables. A change is in force after the next start; <code>chancery config</code>{' '}
        shows where each value comes from.
      </p>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} onCancel={cancel} />}
      {data !== undefined && (
        <section class="plain-table-box settings-features" tabIndex={0} aria-label="Switches of the gateway">
          <table class="plain-table">
            <thead>
              <tr>
                <th scope="col">Setting</th>
                <th scope="col">Value</th>
                <th scope="col">Effect</th>
              </tr>
            </thead>
            <tbody>
              {Object.entries(data).map(([name, value]) => (
                <tr key={name}>
                  <td>
                    <code>{name}</code>
                  </td>
                  <td>
                    <Value value={value} />
                  </td>
                  <td>{effectOf(name)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </Panel>
  );
}

function Value({ value }: { readonly value: string }) {
  const tone = toneOf(value);
  // The names of a list may be broken between them.
  return tone === undefined ? <code>{value.replaceAll(',', ', ')}</code> : <Badge tone={tone}>{value}</Badge>;
}

function RuntimeSettings() {
  const { data, error, reload } = useAnswer('/admin/runtime/settings');
  return (
    <Panel title="Settings that change at run time">
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data?.settings.length === 0 && (
        <p>
          None. Keys, budgets, models, workflows and labels change at once on their pages; the settings above at a
          start.
        </p>
      )}
      {data !== undefined && data.settings.length > 0 && <pre>{JSON.stringify(data.settings, null, 2)}</pre>}
    </Panel>
  );
}

type Report = AnswerOf<Operation<'/admin/runtime/refresh', 'post'>>;

function Refresh() {
  const [report, setReport] = useState<Report | undefined>(undefined);
  const { error, isSending, send } = useChange(() => {});
  const refresh = async () => setReport(await sendChange({ method: 'POST', of: '/admin/runtime/refresh' }));
  return (
    <Panel
      title="Refresh"
      actions={
        <Button disabled={isSending} onClick={() => send(refresh)}>
          {isSending ? 'Refreshing…' : 'Refresh now'}
        </Button>
      }
    >
      <p>Reads the model list of every provider again, and checks that the read models follow the log.</p>
      {error !== undefined && <ErrorPanel error={error} />}
      <div role="status">{report !== undefined && <ReportTable report={report} />}</div>
    </Panel>
  );
}

const reportTones = { ok: 'ok', partial: 'warn', failed: 'bad', skipped: 'plain' } as const;

function ReportTable({ report }: { readonly report: Report }) {
  return (
    <div class="plain-table-box settings-report">
      <table class="plain-table">
        <caption class="visually-hidden">Steps of the refresh</caption>
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col">Result</th>
          </tr>
        </thead>
        <tbody>
          {report.steps.map((step) => (
            <tr key={step.name}>
              <td>
                <code>{step.name}</code>
              </td>
              <td>
                <Badge tone={reportTones[step.status]}>{step.status}</Badge> {step.error ?? step.message}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        {formatCount(report.model_count)} models of {formatCount(report.provider_count)} providers, in{' '}
        {formatDuration(report.duration_ms)}.
      </p>
    </div>
  );
}
