/** The record itself: every event with its place in the stream and in the log. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { hrefOf, route, setQuery } from '../../../app/router.ts';
import { scanJson } from '../../../content/json/json-document.ts';
import { JsonTree } from '../../../content/json/json-tree.tsx';
import { Pieces } from '../../../content/text/pieces.tsx';
import { useSliced } from '../../../content/use-sliced.ts';
import { formatBytes, formatCount } from '../../../format/numbers.ts';
import { formatClock } from '../../../format/times.ts';
import { Button } from '../../../ui/button.tsx';
import { CheckField } from '../../../ui/fields.tsx';
import { Panel } from '../../../ui/panel.tsx';
import { BodyView } from '../body-view.tsx';
import { LoadedView } from '../loaded-view.tsx';
import { bodyOf } from '../record/recorded-bodies.ts';
import { isPiece, type RecordedEvent, type RelatedLink } from '../record/recorded-event.ts';
import { useWholeBody } from '../record/use-whole-body.ts';

interface EventsTabProps {
  readonly id: string;
  readonly events: readonly RecordedEvent[];
  readonly related: readonly RelatedLink[];
}

const ROWS_PER_STEP = 200;

export function EventsTab({ id, events, related }: EventsTabProps) {
  const pieces = events.filter(isPiece).length;
  const wanted = route.value.query.get('revision') ?? undefined;
  const [showsPieces, setShowsPieces] = useState(pieces <= 50);
  const [limit, setLimit] = useState(ROWS_PER_STEP);
  const listed = showsPieces ? events : events.filter((event) => !isPiece(event) || event.revision === wanted);
  const at = listed.findIndex(({ revision }) => revision === wanted);
  const visible = listed.slice(0, Math.max(limit, at + 1));
  return (
    <div class="exchange-stack">
      {pieces > 0 && (
        <CheckField
          label={`Pieces of the answer (${formatCount(pieces)})`}
          checked={showsPieces}
          onChange={setShowsPieces}
        />
      )}
      <ol class="exchange-events" aria-label="Recorded events">
        {visible.map((event) => (
          <EventItem key={event.revision} id={id} event={event} isWanted={event.revision === wanted} />
        ))}
      </ol>
      {visible.length < listed.length && (
        <Button onClick={() => setLimit(limit + ROWS_PER_STEP)}>
          Show more ({formatCount(listed.length - visible.length)} events)
        </Button>
      )}
      <Links related={related} />
    </div>
  );
}

interface EventItemProps {
  readonly id: string;
  readonly event: RecordedEvent;
  /** The address of the view names it. */
  readonly isWanted: boolean;
}

function EventItem({ id, event, isWanted }: EventItemProps) {
  const [isOpen, setOpen] = useState(isWanted);
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (!isWanted) return;
    setOpen(true);
    item.current?.scrollIntoView({ block: 'center' });
  }, [isWanted]);
  return (
    <li ref={item} data-wanted={isWanted}>
      <button
        type="button"
        class="exchange-event"
        aria-expanded={isOpen}
        onClick={() => {
          setOpen(!isOpen);
          setQuery({ revision: isOpen ? undefined : event.revision });
        }}
      >
        <span class="exchange-event-revision">{event.revision}</span>
        <code>{event.type}</code>
        <span class="exchange-muted">{formatClock(event.at)}</span>
        {event.body_bytes !== undefined && <span class="exchange-muted">{formatBytes(event.body_bytes)}</span>}
      </button>
      {isOpen && <EventDetails id={id} event={event} />}
    </li>
  );
}

const envelope = [
  ['id', 'Id'],
  ['schema', 'Version'],
  ['stream', 'Stream'],
  ['revision', 'Revision'],
  ['position', 'Position'],
  ['at', 'Time'],
  ['actor', 'Actor'],
  ['user_path', 'User path'],
  ['request_id', 'Request id'],
  ['correlation_id', 'Correlation id'],
  ['traceparent', 'Trace'],
] as const;

function EventDetails({ id, event }: Omit<EventItemProps, 'isWanted'>) {
  const { causation_id: cause } = event;
  return (
    <div class="exchange-event-details">
      <dl class="exchange-facts">
        {envelope.map(([name, title]) => {
          const value = event[name];
          return value === undefined ? null : (
            <div key={name}>
              <dt>{title}</dt>
              <dd>
                <code>
                  <Pieces text={String(value)} />
                </code>
              </dd>
            </div>
          );
        })}
        {cause !== undefined && (
          <div>
            <dt>Caused by</dt>
            <dd>
              <a href={hrefOf(`/exchange/${encodeURIComponent(cause)}`)}>{cause}</a>
            </dd>
          </div>
        )}
      </dl>
      <Data event={event} />
      <EventBody id={id} event={event} />
    </div>
  );
}

function Data({ event }: { readonly event: RecordedEvent }) {
  const document = useSliced(() => scanJson(JSON.stringify(event.data)), [event]);
  if (document.state !== 'done') return null;
  return (
    <section>
      <h3>Data</h3>
      <JsonTree document={document.value} label={`Data of ${event.type}`} compact />
    </section>
  );
}

function EventBody({ id, event }: Omit<EventItemProps, 'isWanted'>) {
  const whole = useWholeBody(id, bodyOf(event));
  if (event.body_withheld === true) {
    return (
      <p class="exchange-muted">The body has values that guardrails kept from providers. It is only in the log.</p>
    );
  }
  if (event.body_bytes === undefined) return null;
  return (
    <section>
      <h3>Body</h3>
      <LoadedView loaded={whole} nothing={null}>
        {(body) => (
          <BodyView
            body={body}
            label={`Body of ${event.type}, revision ${event.revision}`}
            fileName={`${id}-${event.revision}-${event.type}.txt`}
          />
        )}
      </LoadedView>
    </section>
  );
}

function Links({ related }: { readonly related: readonly RelatedLink[] }) {
  if (related.length === 0) return null;
  return (
    <Panel title="Events of other streams">
      <div class="exchange-scroll" tabIndex={0} role="group" aria-label="Events of other streams">
        <table class="exchange-table">
          <thead>
            <tr>
              <th scope="col">Event</th>
              <th scope="col">Stream</th>
              <th scope="col">Revision</th>
              <th scope="col">Position</th>
              <th scope="col">Time</th>
            </tr>
          </thead>
          <tbody>
            {related.map((link) => (
              <tr key={link.position}>
                <th scope="row">
                  <code>{link.type}</code>{' '}
                  <span class="exchange-muted">
                    {link.relation === 'caused' ? 'begun for this request' : 'in the same append'}
                  </span>
                </th>
                <td>
                  {link.relation === 'caused' ? (
                    <a href={hrefOf(`/exchange/${encodeURIComponent(link.id)}`)}>{link.stream}</a>
                  ) : (
                    <Pieces text={link.stream} />
                  )}
                </td>
                <td data-align="end">{link.revision}</td>
                <td data-align="end">{link.position}</td>
                <td>{formatClock(link.at)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
