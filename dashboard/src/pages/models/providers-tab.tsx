import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { isPast } from '../../app/as-of.ts';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { useChange } from '../../ui/use-change.ts';
import { closeEditor, openEditor, parameter } from './models-address.ts';
import { ProviderCard } from './provider-card.tsx';
import { ProviderDialog } from './provider-dialog.tsx';
import { RemoveProvider } from './remove-provider.tsx';
import type { Credential } from './types.ts';

const REFRESH_MS = 10_000;

/** The providers: state, settings, and the models that they serve. */
export function ProvidersTab() {
  const [removing, setRemoving] = useState<Credential | undefined>(undefined);
  const status = useAnswer('/admin/providers/status', {}, { refreshMs: REFRESH_MS });
  const credentials = useAnswer('/admin/provider-credentials');
  const types = useAnswer('/admin/provider-credentials/types');
  const latency = useLatency();
  const rows = status.data?.providers;
  const byName = new Map(credentials.data?.map((row) => [row.name, row]));
  // A provider that is switched off has no state.
  const off = credentials.data?.filter(({ name }) => !rows?.some((row) => row.name === name)) ?? [];
  const edited = byName.get(parameter('edit'));
  const done = () => {
    closeEditor();
    setRemoving(undefined);
    status.reload();
    credentials.reload();
  };
  const canChange = !isPast.value;
  const actions = (name: string) => {
    const credential = byName.get(name);
    return {
      credential,
      ...(canChange && credential !== undefined && !credential.managed
        ? { onEdit: () => openEditor({ edit: name }), onRemove: () => setRemoving(credential) }
        : {}),
    };
  };
  return (
    <>
      {isPast.value && <p class="models-note">Providers are shown as they are now.</p>}
      {canChange && (
        <div class="models-actions">
          <Button look="main" onClick={() => openEditor({ add: 'provider' })} disabled={types.data === undefined}>
            Add a provider
          </Button>
          <Refresh onDone={status.reload} />
        </div>
      )}
      {status.error !== undefined && <ErrorPanel error={status.error} onRetry={status.reload} />}
      {credentials.error !== undefined && <ErrorPanel error={credentials.error} onRetry={credentials.reload} />}
      {types.error !== undefined && <ErrorPanel error={types.error} onRetry={types.reload} />}
      {rows === undefined && status.error === undefined && <Pending since={status.since} onCancel={status.cancel} />}
      {rows !== undefined && rows.length + off.length === 0 && (
        <EmptyState title="There is no provider.">
          <p>Add one here, or declare it in the configuration of the gateway.</p>
        </EmptyState>
      )}
      <ul class="models-providers" aria-label="Providers">
        {rows?.map((row) => (
          <ProviderCard
            key={row.name}
            name={row.name}
            status={row}
            latency={latency.get(row.name)}
            {...actions(row.name)}
          />
        ))}
        {off.map(({ name }) => (
          <ProviderCard key={name} name={name} status={undefined} latency={undefined} {...actions(name)} />
        ))}
      </ul>
      <p class="models-note">
        Credentials are encrypted with <code>CREDENTIALS_KEY</code>, or with <code>credentials.key</code> in the data
        folder. Without this key, providers set up here cannot be used until their credentials are entered again.
      </p>
      {canChange && types.data !== undefined && (parameter('add') === 'provider' || edited?.managed === false) && (
        <ProviderDialog
          key={edited?.name ?? ''}
          row={edited}
          types={types.data}
          names={[...byName.keys()]}
          onClose={closeEditor}
          onDone={done}
        />
      )}
      {removing !== undefined && <RemoveProvider row={removing} onClose={() => setRemoving(undefined)} onDone={done} />}
    </>
  );
}

/** The newest median of each provider in milliseconds, of the last two hours. Empty while analytics does not answer. */
function useLatency(): ReadonlyMap<string, number> {
  const [from] = useState(() => new Date(Math.floor(Date.now() / 900_000) * 900_000 - 7_200_000).toISOString());
  const overview = useAnswer('/admin/overview', { from });
  return new Map(
    overview.data?.provider_latency.flatMap(({ provider, p50_ms }) => {
      const newest = p50_ms.findLast((median) => median !== null);
      return newest === undefined || newest === null ? [] : [[provider, newest] as const];
    }),
  );
}

/** Reads the model lists of all providers again. */
function Refresh({ onDone }: { readonly onDone: () => void }) {
  const [outcome, setOutcome] = useState<string | undefined>(undefined);
  const { error, isSending, send } = useChange(onDone);
  const refresh = async () => {
    setOutcome(undefined);
    const { model_count, provider_count, steps } = await sendChange({ method: 'POST', of: '/admin/runtime/refresh' });
    const problems = steps.flatMap((step) => step.error ?? step.message ?? []);
    setOutcome(
      `${formatCount(model_count)} models of ${formatCount(provider_count)} providers. ${problems.join(' ')}`.trim(),
    );
  };
  return (
    <>
      <Button disabled={isSending} onClick={() => send(refresh)}>
        {isSending ? 'Reading the model lists' : 'Read the model lists again'}
      </Button>
      <span role="status" class="models-detail">
        {outcome}
      </span>
      {error !== undefined && <ErrorPanel error={error} />}
    </>
  );
}
