/** The request of the client, and what providers received for it. */
import { basePath } from '../../app/base-path.ts';
import { route, setQuery } from '../../app/router.ts';
import { SnippetView } from '../../content/snippets/snippet-view.tsx';
import { Pieces } from '../../content/text/pieces.tsx';
import { SelectField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { BodyView } from './body-view.tsx';
import { noBody } from './conversation-tab.tsx';
import { LoadedView } from './loaded-view.tsx';
import { ProviderRequestView } from './provider-request-view.tsx';
import { dialectOf } from './record/dialect.ts';
import type { ExchangeFacts } from './record/exchange-facts.ts';
import { requestBody } from './record/recorded-bodies.ts';
import { membersOf, type RecordedEvent } from './record/recorded-event.ts';
import { useWholeBody } from './record/use-whole-body.ts';

interface RequestTabProps {
  readonly id: string;
  readonly events: readonly RecordedEvent[];
  readonly facts: ExchangeFacts;
}

export function RequestTab({ id, events, facts }: RequestTabProps) {
  const wanted = Number(route.value.query.get('attempt') ?? 0);
  const attempt = facts.attempts.find(({ number }) => number === wanted);
  return (
    <div class="exchange-stack">
      {facts.attempts.length > 0 && (
        <SelectField
          label="Show"
          value={attempt === undefined ? 'client' : String(attempt.number)}
          choices={[
            { value: 'client', title: 'What the client sent' },
            ...facts.attempts.map(({ number, provider }) => ({
              value: String(number),
              title: `What ${provider} received (attempt ${number})`,
            })),
          ]}
          onChange={(value) => setQuery({ attempt: value === 'client' ? undefined : value })}
        />
      )}
      {attempt === undefined ? (
        <ClientRequest id={id} events={events} facts={facts} />
      ) : (
        <ProviderRequestView key={attempt.number} id={id} attempt={attempt} facts={facts} />
      )}
    </div>
  );
}

function ClientRequest({ id, events, facts }: RequestTabProps) {
  const whole = useWholeBody(id, requestBody(events));
  const headers = Object.entries(membersOf(facts.received.data, 'headers') ?? {});
  return (
    <>
      <LoadedView loaded={whole} nothing={<EmptyState title={noBody(facts)} />}>
        {(body) => (
          <>
            <Panel title="Body">
              <BodyView body={body} label="Request body" fileName={`${id}-request.json`} />
            </Panel>
            <Panel title="Repeat it">
              <SnippetView
                dialect={dialectOf(facts.dialect, facts.path)}
                request={{
                  gateway: location.origin + basePath,
                  ...{ method: facts.method, path: facts.path, body: body.bytes },
                  headers: Object.fromEntries(headers.map(([name, value]) => [name, String(value)])),
                }}
              />
            </Panel>
          </>
        )}
      </LoadedView>
      <HeaderTable headers={headers} />
    </>
  );
}

function HeaderTable({ headers }: { readonly headers: readonly (readonly [string, unknown])[] }) {
  return (
    <Panel title="Headers">
      <div class="exchange-scroll" tabIndex={0} role="group" aria-label="Headers of the request">
        <table class="exchange-table">
          <caption class="visually-hidden">Headers; credentials are not recorded</caption>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Value</th>
            </tr>
          </thead>
          <tbody>
            {headers.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">
                  <Pieces text={name} />
                </th>
                <td>
                  <Pieces text={String(value)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
