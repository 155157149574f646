/** What is on record about a key that is not accepted, or about its previous secrets. */
import { isGlobal } from '../../api/access.ts';
import { type Answer, request } from '../../api/client.ts';
import { useAnswer, useLoaded } from '../../api/use-answer.ts';
import { formatCount } from '../../format/numbers.ts';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { Actor } from './actor.tsx';
import type { KeyRow } from './key-row.ts';
import { historyHref } from './keys-address.ts';

/** Who deactivated the key, and that no gateway accepts it: read again after the change. */
export function DeactivatedPanel({ row }: { readonly row: KeyRow }) {
  const { data, error, since, reload } = useAnswer('/admin/history', { subject: `key:${row.id}`, limit: 20 });
  const change = data?.entries.find(({ type }) => type === 'key.deactivated');
  return (
    <Panel title="This key works nowhere" class="keys-ended">
      <p>
        {change === undefined ? (
          <>
            It is deactivated
            {row.deactivated_at !== undefined && (
              <>
                {' '}
                since <Time at={row.deactivated_at} />
              </>
            )}
            .
          </>
        ) : (
          <>
            It was deactivated by <Actor actor={change.actor} /> at <Time at={change.at} /> (position{' '}
            <a href={historyHref(`key:${row.id}`)}>{change.position.replace(/^0+(?=\d)/, '')}</a> of the log).
          </>
        )}{' '}
        Every request with it gets 401 <code>invalid_api_key</code>, with each of its secrets.
      </p>
      <p>
        The gateway answers a deactivation only after every live gateway on the log has applied it, or has lost its
        lease and serves nothing. Answers that had begun continue to their end.
      </p>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since}>Checking the state of the key</Pending>}
      {isGlobal.value ? <Gateways /> : null}
      <RefusedUses row={row} />
    </Panel>
  );
}

function Gateways() {
  const { data } = useAnswer('/admin/gateways');
  if (data === undefined) return null;
  const { gateways } = data;
  if (gateways.length === 1) {
    return (
      <p>
        <Badge tone="ok">Verified</Badge> One gateway uses this log. It has answered that the key is not accepted.
      </p>
    );
  }
  return (
    <>
      <p>
        <Badge tone="ok">Verified</Badge> {formatCount(gateways.length)} gateways use this log. Each has applied the
        deactivation, or has lost its lease:
      </p>
      <GatewayList gateways={gateways} />
    </>
  );
}

function GatewayList({ gateways }: Pick<Answer<'/admin/gateways'>, 'gateways'>) {
  return (
    <ul class="keys-plain-list">
      {gateways.map(({ id, host, pid, state }) => (
        <li key={id}>
          <code>{id}</code> {host !== undefined && `${host}, process ${pid ?? ''}`}{' '}
          <Badge tone={state === 'serving' ? 'ok' : 'warn'}>{state}</Badge>
        </li>
      ))}
    </ul>
  );
}

/** The previous secret after a rotation, and the requests that were refused because of the key. */
export function PreviousSecretPanel({ row }: { readonly row: KeyRow }) {
  const until = row.previous_valid_until;
  return (
    <Panel title="Previous secret">
      <p>
        {until === undefined ? (
          'Only the newest secret is accepted.'
        ) : (
          <>
            The secret before the last rotation is accepted until <Time at={until} />, for model requests only. Requests
            in this time do not record which of the two they used.
          </>
        )}{' '}
        The gateway records each use of an ended secret with the key:
      </p>
      <RefusedUses row={row} />
    </Panel>
  );
}

interface Refused {
  readonly reason: string;
  readonly requests: number;
  readonly last: string;
}

const reasons: Readonly<Record<string, string>> = {
  inactive: 'after the deactivation',
  expired: 'after the expiry',
  rotated: 'with an ended secret',
};

/** Requests refused because of the key, by reason. Only global administrators can read them. */
function RefusedUses({ row }: { readonly row: KeyRow }) {
  if (!isGlobal.value) {
    return <p class="keys-muted">Global administrators see the refused requests here.</p>;
  }
  return <RefusedTable id={row.id} />;
}

function RefusedTable({ id }: { readonly id: string }) {
  const { data, error, since, reload } = useLoaded((signal) => readRefused(id, signal), `refused ${id}`);
  if (error !== undefined) return <ErrorPanel error={error} onRetry={reload} />;
  if (data === undefined) return <Pending since={since}>Reading refused requests</Pending>;
  if (data.length === 0) return <p>No request with it was refused in the last 30 days.</p>;
  return (
    <ul class="keys-plain-list">
      {data.map(({ reason, requests, last }) => (
        <li key={reason}>
          {formatCount(requests)} refused {requests === 1 ? 'request' : 'requests'} {reasons[reason] ?? reason}, the
          last at <Time at={last} />
        </li>
      ))}
    </ul>
  );
}

async function readRefused(id: string, signal: AbortSignal): Promise<readonly Refused[]> {
  const query = `SELECT JSONExtractString(data, 'reason') AS reason, sum(JSONExtractUInt(data, 'count')) AS requests,
  formatDateTime(max(at), '%Y-%m-%dT%H:%i:%SZ') AS last FROM events
WHERE type = 'access.refused' AND JSONExtractString(data, 'keyId') = '${id.replaceAll(/[^\w-]/g, '')}'
  AND at > now() - INTERVAL 30 DAY GROUP BY reason ORDER BY last DESC`;
  const response = await request('/admin/sql', { json: { query, format: 'JSON' }, signal });
  const { data } = (await response.json()) as { data: readonly { reason: string; requests: string; last: string }[] };
  return data.map(({ reason, requests, last }) => ({ reason, last, requests: Number(requests) }));
}
