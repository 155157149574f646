import { useState } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';
import { route, setQuery } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Fact, FactList } from '../../ui/fact-list.tsx';
import { Time } from '../../ui/facts.tsx';
import { TextField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';

/** Looks up one stream by its name. */
export function StreamsTab() {
  const shown = route.value.query.get('stream') ?? '';
  const [name, setName] = useState(shown);
  const show = () => setQuery({ stream: name.trim(), before: undefined }, { push: true });
  return (
    <>
      <form
        class="log-search"
        onSubmit={(event) => {
          event.preventDefault();
          show();
        }}
      >
        <TextField
          label="Name of the stream"
          type="search"
          value={name}
          onInput={setName}
          placeholder="exchange-0193f0c2-…"
          help="A kind and an id: exchange-…, key-…, response-…, user-/team, lease-…"
        />
        <Button type="submit" look="main">
          Show
        </Button>
      </form>
      {shown === '' ? (
        <EmptyState title="No stream is chosen.">
          <p>
            Enter the name of a stream. The tab Events of a request shows the stream of that request with its content.
          </p>
        </EmptyState>
      ) : (
        <Stream key={shown} name={shown} />
      )}
    </>
  );
}

function Stream({ name }: { readonly name: string }) {
  const before = route.value.query.get('before') ?? undefined;
  const { data, error, since, cancel, reload } = useAnswer('/admin/log/stream', { name, before, limit: 50 });
  if (error !== undefined) return <ErrorPanel error={error} onRetry={reload} />;
  if (data === undefined) return <Pending since={since} onCancel={cancel} />;
  const last = data.events.at(-1)?.revision;
  return (
    <div class="log-panels">
      <Panel title={name} actions={<CopyButton text={name} what="the name" />}>
        <FactList>
          <Fact name="Revision">{data.revision}</Fact>
          <Fact name="First event">
            <code>{data.first.position}</code> <Time at={data.first.at} />
          </Fact>
          <Fact name="Last event">
            <code>{data.last.position}</code> <Time at={data.last.at} />
          </Fact>
        </FactList>
      </Panel>
      <Panel title="Events, newest first">
        <section class="plain-table-box" tabIndex={0} aria-label="Events of the stream">
          <table class="plain-table">
            <thead>
              <tr>
                <th scope="col" data-align="end">
                  Revision
                </th>
                <th scope="col">Type</th>
                <th scope="col">Time</th>
                <th scope="col">Position</th>
                <th scope="col">Actor</th>
              </tr>
            </thead>
            <tbody>
              {data.events.map((event) => (
                <tr key={event.revision}>
                  <td data-align="end">{event.revision}</td>
                  <td>
                    <code>{event.type}</code>
                  </td>
                  <td>
                    <Time at={event.at} />
                  </td>
                  <td>
                    <code>{event.position}</code>
                  </td>
                  <td>
                    <code>{event.actor}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
        <div class="dialog-actions">
          {before !== undefined && (
            <Button onClick={() => setQuery({ before: undefined }, { push: true })}>Newest</Button>
          )}
          {data.has_more && <Button onClick={() => setQuery({ before: last }, { push: true })}>Older</Button>}
        </div>
      </Panel>
    </div>
  );
}
