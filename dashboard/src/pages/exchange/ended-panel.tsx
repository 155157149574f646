/** Why the request got no regular answer. */
import { useState } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { Recorded } from '../../content/text/recorded.tsx';
import { Button } from '../../ui/button.tsx';
import { Panel } from '../../ui/panel.tsx';
import { Badge, type Tone } from '../../ui/status-badge.tsx';
import { LoadedView } from './loaded-view.tsx';
import type { EndedWhy } from './record/ended-why.ts';

const titles: Readonly<Record<number, string>> = { 499: 'Client disconnected' };

export function EndedPanel({ why }: { readonly why: EndedWhy }) {
  const [showsRules, setShowsRules] = useState(false);
  const tone: Tone = why.status >= 500 || why.status === 0 ? 'bad' : 'warn';
  const { facts } = why;
  return (
    <Panel
      title={titles[why.status] ?? 'Why this request was not answered'}
      class="exchange-ended"
      actions={<Badge tone={tone}>{`decided by: ${why.decidedBy}`}</Badge>}
    >
      <p class="exchange-decision">
        <Pieces text={why.decision} />
      </p>
      {why.message !== undefined && (
        <p>
          The client received:{' '}
          <q>
            <Pieces text={why.message} />
          </q>
        </p>
      )}
      <p class="exchange-muted">
        {why.status > 0 && <span>HTTP {why.status} </span>}
        {why.code !== undefined && (
          <code>
            <Recorded text={why.code} />
          </code>
        )}
      </p>
      <p>{why.advice}</p>
      {facts !== undefined && (
        <>
          <Button expanded={showsRules} onClick={() => setShowsRules(!showsRules)}>
            {facts.title}
          </Button>
          {showsRules && <Rules query={facts.query} />}
        </>
      )}
    </Panel>
  );
}

/** The rules as they are now, which may differ from those at the time of the request. */
function Rules({ query }: { readonly query: NonNullable<EndedWhy['facts']>['query'] }) {
  const loaded = useAnswer('/admin/explain', query);
  return (
    <LoadedView loaded={loaded} nothing={null}>
      {({ steps }) => (
        <div class="exchange-scroll" tabIndex={0} role="group" aria-label="Rules in force now">
          <table class="exchange-table">
            <caption>Rules in force now</caption>
            <thead>
              <tr>
                <th scope="col">Check</th>
                <th scope="col">Of</th>
                <th scope="col">Target</th>
                <th scope="col">Allowed</th>
                <th scope="col">Rule</th>
              </tr>
            </thead>
            <tbody>
              {steps.map((step, place) => (
                <tr key={place}>
                  <td>{step.check}</td>
                  <td>
                    <Pieces text={step.subject} />
                  </td>
                  <td>
                    <Pieces text={step.target ?? 'all'} />
                  </td>
                  <td>{step.allowed ? 'yes' : 'no'}</td>
                  <td>
                    <Pieces
                      text={[step.reason, step.list?.join(', '), `from ${step.source}`].filter(Boolean).join('; ')}
                    />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </LoadedView>
  );
}
