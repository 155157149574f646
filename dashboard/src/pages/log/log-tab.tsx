import type { Answer } from '../../api/client.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { formatBytes, formatCount } from '../../format/numbers.ts';
import { Fact, FactList } from '../../ui/fact-list.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { Refreshed } from '../../ui/refreshed.tsx';
import { Badge } from '../../ui/status-badge.tsx';

type LogState = Answer<'/admin/log'>;

const engines: Readonly<Record<LogState['engine'], string>> = {
  files: 'Files of this machine',
  memory: 'Memory',
  kafka: 'Kafka, with a replica in files',
  eventstore: 'EventStoreDB, with a replica in files',
};

/** The end of the log, its durability and its segments. */
export function LogTab({ refreshMs }: { readonly refreshMs: number }) {
  const loaded = useAnswer('/admin/log', {}, { refreshMs });
  return (
    <Refreshed loaded={loaded} refreshMs={refreshMs}>
      {(log) => (
        <>
          <State log={log} />
          {log.replica !== null && <Replica replica={log.replica} />}
          {log.segments !== null && <Segments segments={log.segments} />}
        </>
      )}
    </Refreshed>
  );
}

function State({ log }: { readonly log: LogState }) {
  const { durability } = log;
  return (
    <Panel title="State">
      <FactList>
        <Fact name="Engine">{engines[log.engine]}</Fact>
        <Fact name="Writing">
          <Writing log={log} />
        </Fact>
        <Fact name="End of the log">
          <code>{log.head}</code>
        </Fact>
        <Fact name="Last event">{log.last_event_at === null ? 'none' : <Time at={log.last_event_at} />}</Fact>
        <Fact name="Durability">
          {durability.level !== null && (
            <>
              <code>LOG_DURABILITY={durability.level}</code>.{' '}
            </>
          )}
          {durability.meaning}
        </Fact>
        <Fact name="Not yet on disk">{formatBytes(log.unsynced_bytes)}</Fact>
        <Fact name="Stream index">
          {log.stream_index === 'ok' ? 'complete' : 'being built: streams are found slower'}
        </Fact>
      </FactList>
      <p class="log-note">
        <code>chancery log check</code> verifies the checksums of all segments.
      </p>
    </Panel>
  );
}

function Writing({ log }: { readonly log: LogState }) {
  if (log.state === 'unavailable') {
    return (
      <>
        <Badge tone="bad">refused</Badge> <span class="log-problem">{log.reason}</span>
      </>
    );
  }
  if (log.degraded === null) return <Badge tone="ok">possible</Badge>;
  return (
    <>
      <Badge tone="warn">possible, with a problem</Badge> <span class="log-problem">{log.degraded}</span>
    </>
  );
}

function Replica({ replica }: { readonly replica: NonNullable<LogState['replica']> }) {
  return (
    <Panel title="Replica of the engine">
      <FactList>
        <Fact name="Engine">
          {replica.connected ? <Badge tone="ok">connected</Badge> : <Badge tone="bad">not connected</Badge>}
        </Fact>
        <Fact name="Appends not read yet">{formatCount(replica.unread_appends)}</Fact>
        <Fact name="Last read">{replica.last_read_at === null ? 'never' : <Time at={replica.last_read_at} />}</Fact>
      </FactList>
    </Panel>
  );
}

function Segments({ segments }: { readonly segments: NonNullable<LogState['segments']> }) {
  const { count, sealed, bytes, newest } = segments;
  return (
    <Panel title="Segments">
      <p>
        {formatCount(count)} {count === 1 ? 'segment' : 'segments'}, {formatCount(sealed)} compressed,{' '}
        {formatBytes(bytes)} on disk.
      </p>
      <section class="plain-table-box" tabIndex={0} aria-label="Newest segments">
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">First position</th>
              <th scope="col">Last position</th>
              <th scope="col">State</th>
              <th scope="col" data-align="end">
                Size
              </th>
            </tr>
          </thead>
          <tbody>
            {newest.map((segment) => (
              <tr key={segment.first}>
                <td>
                  <code>{segment.first}</code>
                </td>
                <td>{segment.last === null ? '–' : <code>{segment.last}</code>}</td>
                <td>{segment.last === null ? 'being written' : segment.sealed ? 'compressed' : 'full'}</td>
                <td data-align="end">{formatBytes(segment.bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {count > newest.length && <p class="log-note">The newest {newest.length} of them.</p>}
    </Panel>
  );
}
