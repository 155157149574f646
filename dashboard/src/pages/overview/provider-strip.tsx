import { useAnswer } from '../../api/use-answer.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge, type Tone } from '../../ui/status-badge.tsx';
import { auditHref, type Between } from './overview-links.ts';

const tones: Readonly<Record<string, Tone>> = { healthy: 'ok', degraded: 'warn', unhealthy: 'bad' };

/** The state of each provider; those that need attention first. Only for administrators of the whole gateway. */
export function ProviderStrip({
  range,
  refreshMs,
}: {
  readonly range: Between;
  readonly refreshMs: number | undefined;
}) {
  const status = useAnswer('/admin/providers/status', {}, { refreshMs });
  const order = ['unhealthy', 'degraded', 'healthy'];
  const providers = [...(status.data?.providers ?? [])].sort(
    (one, other) => order.indexOf(one.status) - order.indexOf(other.status) || one.name.localeCompare(other.name),
  );
  return (
    <Panel title="Providers" class="overview-wide overview-providers">
      {status.error !== undefined && <ErrorPanel error={status.error} onRetry={status.reload} />}
      {status.data === undefined && status.error === undefined && (
        <Pending since={status.since} onCancel={status.cancel} />
      )}
      {status.data !== undefined && providers.length === 0 && <p>No provider is configured.</p>}
      <ul class="provider-strip">
        {providers.map(({ name, type, status: health, status_label, status_reason, last_error, runtime }) => (
          <li key={name}>
            <a href={auditHref(range, { provider_name: name })}>{name}</a>
            <Badge tone={tones[health] ?? 'plain'}>{status_label}</Badge>
            <span class="provider-facts">
              {name === type ? '' : `${type}, `}
              {formatCount(runtime.discovered_model_count)} models
              {runtime.circuit_breaker !== undefined && runtime.circuit_breaker !== 'closed'
                ? `, circuit ${runtime.circuit_breaker.replace('_', ' ')}`
                : ''}
            </span>
            {health !== 'healthy' && (
              <span class="provider-reason">
                <Recorded text={last_error ?? status_reason} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
