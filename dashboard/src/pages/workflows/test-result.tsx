import type { paths } from '../../../generated/api';
import { hrefOf } from '../../app/router.ts';
import { DiffView } from '../../content/diff/diff-view.tsx';
import { Recorded } from '../../content/text/recorded.tsx';
import { SafeText } from '../../content/text/safe-text.tsx';
import { formatDuration } from '../../format/numbers.ts';
import { Count, Money } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { Badge, type Tone } from '../../ui/status-badge.tsx';

export type TestAnswer = paths['/admin/guardrails/test']['post']['responses'][200]['content']['application/json'];

const decisions: Readonly<Record<TestAnswer['decision'], { readonly tone: Tone; readonly title: string }>> = {
  allow: { tone: 'ok', title: 'allowed' },
  warn: { tone: 'warn', title: 'warned' },
  respond: { tone: 'warn', title: 'answered in place of the model' },
  block: { tone: 'bad', title: 'blocked' },
  failure: { tone: 'bad', title: 'failed' },
};

export function TestResult({ text, answer }: { readonly text: string; readonly answer: TestAnswer }) {
  const { tone, title } = decisions[answer.decision];
  const findings = Object.entries(answer.findings);
  return (
    <Panel title="Result">
      <div class="wf-result" role="status">
        <dl class="wf-facts">
          <dt>Verdict</dt>
          <dd>
            <Badge tone={tone}>{title}</Badge> {answer.changed && <Badge tone="info">changed</Badge>}
            {answer.status !== null && ` with status ${answer.status}`}
            {answer.code !== null && (
              <>
                {' '}
                <code>{answer.code}</code>
              </>
            )}
          </dd>
          {answer.message !== null && (
            <>
              <dt>Message</dt>
              <dd>
                <Recorded text={answer.message} />
              </dd>
            </>
          )}
          {answer.decision === 'failure' && (
            <>
              <dt>In a request</dt>
              <dd>{answer.fail_mode === 'closed' ? 'the request would end with an error' : 'it would be skipped'}</dd>
            </>
          )}
          <dt>Findings</dt>
          <dd>{findings.length === 0 ? 'none' : findings.map(([kind, count]) => `${count} × ${kind}`).join(', ')}</dd>
          <dt>Duration</dt>
          <dd>{formatDuration(answer.duration_ms)}</dd>
        </dl>
        {answer.respond_text !== null && (
          <>
            <h3>Answer to the client</h3>
            <SafeText text={answer.respond_text} />
          </>
        )}
        {answer.text !== text && (
          <>
            <h3>Changes of the text</h3>
            <DiffView before={text} after={answer.text} beforeTitle="the given text" afterTitle="the changed text" />
          </>
        )}
        <OtherChanges answer={answer} />
      </div>
    </Panel>
  );
}

function OtherChanges({ answer }: { readonly answer: TestAnswer }) {
  const { placeholders, headers, messages, calls } = answer;
  return (
    <>
      {placeholders.length > 0 && (
        <>
          <h3>Placeholders, which are restored in the answer</h3>
          <dl class="wf-facts">
            {placeholders.map(({ placeholder, value }) => (
              <>
                <dt key={`${placeholder} name`}>
                  <code>{placeholder}</code>
                </dt>
                <dd key={placeholder}>
                  <Recorded text={value} />
                </dd>
              </>
            ))}
          </dl>
        </>
      )}
      {answer.changed && messages !== null && messages.length > 1 && (
        <>
          <h3>Messages of the request</h3>
          {messages.map(({ role, text }, place) => (
            <p key={place}>
              <strong>{role}</strong> <SafeText text={text} />
            </p>
          ))}
        </>
      )}
      {headers.length > 0 && (
        <>
          <h3>Headers</h3>
          <SafeText text={JSON.stringify(headers, undefined, 2)} look="code" />
        </>
      )}
      {calls.length > 0 && (
        <>
          <h3>Calls of models</h3>
          <ul>
            {calls.map(({ exchange_id: id, input_tokens: input, output_tokens: output, cost }) => (
              <li key={id}>
                <a href={hrefOf(`/exchange/${id}`)}>{id}</a>: <Count count={input} /> tokens in,{' '}
                <Count count={output} /> out, <Money dollars={cost} />
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
