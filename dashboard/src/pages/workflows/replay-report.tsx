import { hrefOf } from '../../app/router.ts';
import { BarList } from '../../charts/bar-list.tsx';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount, formatDuration, formatShare } from '../../format/numbers.ts';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { type ReplayResult, type ReplayVerdict, reasonTitle, verdicts } from './replay-words.ts';

interface ReplayReportProps {
  readonly result: ReplayResult;
  readonly isRunning: boolean;
}

/** What the draft would have done. */
export function ReplayReport({ result, isRunning }: ReplayReportProps) {
  return (
    <>
      <Panel title={isRunning ? 'What the draft would have done, so far' : 'What the draft would have done'}>
        <VerdictCounts result={result} />
      </Panel>
      <Differences result={result} />
      <Panel title="Examples">
        <Examples result={result} isRunning={isRunning} />
      </Panel>
      <Panel title="Guardrails of the draft">
        <GuardrailFigures result={result} isRunning={isRunning} />
      </Panel>
    </>
  );
}

function VerdictCounts({ result }: { readonly result: ReplayResult }) {
  const evaluated = verdicts.reduce((sum, { name }) => sum + result.verdicts[name], 0);
  const without = Object.entries(result.not_evaluated);
  const answers = Object.entries(result.answers_not_evaluated);
  return (
    <>
      <BarList
        label="Requests by verdict"
        name="Verdict"
        columns={['Requests', 'Share']}
        rows={verdicts.map(({ name, title }) => ({
          key: name,
          title,
          value: result.verdicts[name],
          cells: [
            formatCount(result.verdicts[name]),
            evaluated === 0 ? '–' : formatShare(result.verdicts[name] / evaluated),
          ],
        }))}
      />
      <ul class="wf-reasons">
        <li>
          {formatCount(result.other_workflow)} requests of the range have another workflow, which the draft does not
          replace.
        </li>
        {without.map(([reason, count]) => (
          <li key={reason}>
            {formatCount(count)} not evaluated: {reasonTitle(reason)}.
          </li>
        ))}
        {answers.map(([reason, count]) => (
          <li key={reason}>
            {formatCount(count)} answers not evaluated: {reasonTitle(reason)}.
          </li>
        ))}
        {result.without_earlier_turns > 0 && (
          <li>{formatCount(result.without_earlier_turns)} evaluated without earlier turns that they continue.</li>
        )}
        {result.unreadable > 0 && <li>{formatCount(result.unreadable)} with members that guardrails cannot read.</li>}
      </ul>
    </>
  );
}

/** Requests by both verdicts, where they differ. */
function Differences({ result }: { readonly result: ReplayResult }) {
  const both = result.recorded_verdicts;
  if (both === undefined || Object.keys(both).length === 0) return null;
  const differing = verdicts.flatMap(({ name: draft }) =>
    verdicts.flatMap(({ name: then }) => {
      const count = draft === then ? 0 : (both[draft]?.[then] ?? 0);
      return count === 0 ? [] : [{ draft, then, count }];
    }),
  );
  return (
    <Panel title="Differences to what happened">
      {differing.length === 0 ? (
        <p>The draft has the same verdict for each evaluated request as the guardrails that ran then.</p>
      ) : (
        <div class="plain-table-box" tabIndex={0} role="group" aria-label="Differences to what happened">
          <table class="plain-table">
            <thead>
              <tr>
                <th scope="col">Then</th>
                <th scope="col">With the draft</th>
                <th scope="col" data-align="end">
                  Requests
                </th>
              </tr>
            </thead>
            <tbody>
              {differing.map(({ draft, then, count }) => (
                <tr key={`${then} ${draft}`}>
                  <td>{verdictTitle(then)}</td>
                  <td>{verdictTitle(draft)}</td>
                  <td data-align="end">{formatCount(count)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function verdictTitle(verdict: ReplayVerdict): string {
  return verdicts.find(({ name }) => name === verdict)?.title ?? verdict;
}

function Examples({ result, isRunning }: ReplayReportProps) {
  if (result.examples.length === 0)
    return <EmptyState title={isRunning ? 'No request has been evaluated yet.' : 'No request was evaluated.'} />;
  return (
    <div class="plain-table-box" tabIndex={0} role="group" aria-label="Examples">
      <table class="plain-table">
        <caption class="visually-hidden">At most ten requests of each verdict</caption>
        <thead>
          <tr>
            <th scope="col">Request</th>
            <th scope="col">With the draft</th>
            <th scope="col">What happened</th>
            <th scope="col">Guardrail</th>
            <th scope="col">Phase</th>
            <th scope="col">Code</th>
          </tr>
        </thead>
        <tbody>
          {result.examples.map((example) => (
            <ExampleLine key={`${example.verdict} ${example.exchange_id}`} example={example} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ExampleLine({ example }: { readonly example: ReplayResult['examples'][number] }) {
  const { exchange_id: id, at, guardrail, phase, code, recorded } = example;
  const verdict = verdicts.find(({ name }) => name === example.verdict);
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf(`/exchange/${id}`)}>
          <Time at={at} />
        </a>
      </th>
      <td>
        <Badge tone={verdict?.tone ?? 'plain'}>{verdictTitle(example.verdict)}</Badge>
      </td>
      <td>
        {recorded === undefined ? (
          '–'
        ) : (
          <>
            {verdictTitle(recorded.verdict)}, {recorded.status === 0 ? 'no answer' : `status ${recorded.status}`}
          </>
        )}
      </td>
      <td>{guardrail === undefined ? '–' : <Recorded text={guardrail} />}</td>
      <td>{phase ?? '–'}</td>
      <td>{code === undefined ? '–' : <Recorded text={code} />}</td>
    </tr>
  );
}

function GuardrailFigures({ result, isRunning }: ReplayReportProps) {
  if (result.guardrails.length === 0)
    return <EmptyState title={`No guardrail of the draft has run${isRunning ? ' yet' : ''}.`} />;
  return (
    <div class="plain-table-box" tabIndex={0} role="group" aria-label="Guardrails of the draft">
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Guardrail</th>
            <th scope="col">Phase</th>
            <th scope="col" data-align="end">
              Runs
            </th>
            <th scope="col">Verdicts</th>
            <th scope="col" data-align="end">
              Changed
            </th>
            <th scope="col">Findings</th>
            <th scope="col" data-align="end">
              Average
            </th>
            <th scope="col" data-align="end">
              Longest
            </th>
          </tr>
        </thead>
        <tbody>
          {result.guardrails.map((one) => (
            <tr key={`${one.phase} ${one.step} ${one.guardrail}`}>
              <th scope="row">
                <Recorded text={one.guardrail} />
              </th>
              <td>{one.phase}</td>
              <td data-align="end">{formatCount(one.runs)}</td>
              <td>{countsOf(one.verdicts)}</td>
              <td data-align="end">{formatCount(one.edited)}</td>
              <td>{countsOf(one.findings)}</td>
              <td data-align="end">{formatDuration(one.average_ms)}</td>
              <td data-align="end">{formatDuration(one.longest_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function countsOf(counts: Readonly<Record<string, number>>): string {
  const given = Object.entries(counts).filter(([, count]) => count > 0);
  return given.length === 0 ? '–' : given.map(([name, count]) => `${name} ${formatCount(count)}`).join(', ');
}
