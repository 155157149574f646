import type { ComponentChildren } from 'preact';
import { hrefOf } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/facts.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { tabHref } from './models-address.ts';
import { healthTones } from './targets.ts';
import type { Credential, ProviderStatus } from './types.ts';

interface ProviderCardProps {
  readonly name: string;
  /** Undefined for one that is switched off. */
  readonly status: ProviderStatus | undefined;
  readonly credential: Credential | undefined;
  /** Milliseconds. */
  readonly latency: number | undefined;
  readonly onEdit?: () => void;
  readonly onRemove?: () => void;
}

export function ProviderCard({ name, status, credential, latency, onEdit, onRemove }: ProviderCardProps) {
  return (
    <li class="models-provider">
      <div class="panel-head">
        <h2>
          {name} {status !== undefined && <Badge tone={healthTones[status.status]}>{status.status_label}</Badge>}
          {status === undefined && <Badge tone="plain">Off</Badge>}
        </h2>
        <span class="models-row-actions">
          {onEdit !== undefined && (
            <Button label={`Edit ${name}`} onClick={onEdit}>
              Edit
            </Button>
          )}
          {onRemove !== undefined && (
            <Button label={`Remove ${name}`} onClick={onRemove}>
              Remove
            </Button>
          )}
        </span>
      </div>
      {status !== undefined && status.status !== 'healthy' && (
        <p class="models-reason">
          <Recorded text={status.last_error ?? status.status_reason} />
        </p>
      )}
      {credential?.problem !== undefined && credential.problem !== status?.last_error && (
        <p class="models-reason">
          <Recorded text={credential.problem} />
        </p>
      )}
      <dl class="models-facts">
        <Fact name="Type">{status?.type ?? credential?.type}</Fact>
        {status !== undefined && <StatusFacts name={name} status={status} latency={latency} />}
        <Fact name="API keys">{formatCount(credential?.api_keys?.length ?? 0)}</Fact>
        <Fact name="Address">
          <Recorded text={status?.config.base_url ?? credential?.base_url ?? '–'} />
        </Fact>
        <Fact name="Set up in">
          {credential?.managed === false ? (
            <>
              the admin API
              {credential.updated_at !== undefined && (
                <>
                  , <Time at={credential.updated_at} />
                </>
              )}
            </>
          ) : (
            'the configuration'
          )}
        </Fact>
        <Fact name="Requests">
          <a href={hrefOf('/audit', { provider_name: name })} aria-label={`Audit of ${name}`}>
            Audit
          </a>
        </Fact>
      </dl>
    </li>
  );
}

interface StatusFactsProps {
  readonly name: string;
  readonly status: ProviderStatus;
  readonly latency: number | undefined;
}

function StatusFacts({ name, status: { runtime }, latency }: StatusFactsProps) {
  return (
    <>
      <Fact name="Models">
        <a
          href={tabHref('models', { provider: name })}
          aria-label={`${formatCount(runtime.discovered_model_count)} models of ${name}`}
        >
          {formatCount(runtime.discovered_model_count)}
        </a>
      </Fact>
      <Fact name="List read">
        {runtime.last_model_fetch_success_at === undefined ? (
          'never'
        ) : (
          <Time at={runtime.last_model_fetch_success_at} />
        )}
      </Fact>
      <Fact name="Circuit breaker">{runtime.circuit_breaker?.replace('_', ' ') ?? '–'}</Fact>
      <Fact name="Median duration">{latency === undefined ? '–' : formatDuration(latency)}</Fact>
    </>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
