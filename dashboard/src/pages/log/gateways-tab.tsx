import type { Answer } from '../../api/client.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { formatCount } from '../../format/numbers.ts';
import { Fact, FactList } from '../../ui/fact-list.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { Refreshed } from '../../ui/refreshed.tsx';
import { Badge, type Tone } from '../../ui/status-badge.tsx';

type GatewayRow = Answer<'/admin/gateways'>['gateways'][number];

const tones: Readonly<Record<GatewayRow['state'], Tone>> = { starting: 'info', serving: 'ok', late: 'bad' };

/** The gateways and workers on the log. */
export function GatewaysTab({ refreshMs }: { readonly refreshMs: number }) {
  const loaded = useAnswer('/admin/gateways', {}, { refreshMs });
  return (
    <Refreshed loaded={loaded} refreshMs={refreshMs}>
      {({ gateways, head }) => (
        <>
          <p>
            {gateways.length === 1
              ? 'One gateway process uses the log.'
              : `${formatCount(gateways.length)} gateway processes use the log; each worker is one.`}{' '}
            The one that answered has read up to <code>{head}</code>.
          </p>
          {gateways.map((gateway) => (
            <Gateway key={gateway.id} gateway={gateway} head={head} />
          ))}
        </>
      )}
    </Refreshed>
  );
}

function Gateway({ gateway, head }: { readonly gateway: GatewayRow; readonly head: string }) {
  const { host, pid, version } = gateway;
  return (
    <Panel
      title={`${gateway.folder.startsWith('worker') ? gateway.folder : 'Gateway'} ${gateway.id}`}
      actions={
        <>
          {gateway.self && <Badge tone="plain">answers now</Badge>}
          <Badge tone={tones[gateway.state]}>{gateway.state}</Badge>
        </>
      }
    >
      <FactList>
        <Fact name="Lease">
          {gateway.lease_seconds === null
            ? 'needs no renewal: only one gateway can use the log'
            : `${gateway.lease_seconds} s`}
          , granted <Time at={gateway.joined_at} />
        </Fact>
        {gateway.lease_seconds !== null && (
          <Fact name="Renewed">
            <Time at={gateway.renewed_at} />
          </Fact>
        )}
        {gateway.lease_seconds !== null && (
          <Fact name="Lag at the renewal">
            {gateway.lag_events === 0
              ? 'none'
              : `${formatCount(gateway.lag_events)} ${gateway.lag_events === 1 ? 'event' : 'events'} not read`}
            , up to <code>{gateway.read_position}</code>
          </Fact>
        )}
        <Fact name="Changes in force">
          up to <code>{gateway.lease_seconds === null ? head : gateway.applied_position}</code>
        </Fact>
        <Fact name="Data folder">
          <code>{gateway.folder}</code>
        </Fact>
        {gateway.started_at !== undefined && (
          <Fact name="Process">
            {[version, host, pid === undefined ? undefined : `pid ${pid}`].filter(Boolean).join(', ')}, started{' '}
            <Time at={gateway.started_at} />
          </Fact>
        )}
      </FactList>
    </Panel>
  );
}
