import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { providerBasis } from './current-versions.ts';
import { type LostTargets, lostWith } from './targets.ts';
import type { Credential } from './types.ts';

interface RemoveProviderProps {
  readonly row: Credential;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Removes a provider, and names before what loses it. */
export function RemoveProvider({ row, onClose, onDone }: RemoveProviderProps) {
  const { name } = row;
  const models = useAnswer('/admin/models');
  const virtualModels = useAnswer('/admin/virtual-models');
  const error = models.error ?? virtualModels.error;
  const isRead = models.data !== undefined && virtualModels.data !== undefined;
  return (
    <ConfirmDialog
      title={`Remove the provider "${name}"?`}
      confirmLabel="Remove the provider"
      effect={
        <>
          <p>
            New requests are not sent to it, and its credential is removed from the settings. Requests in flight are
            completed.
          </p>
          {error !== undefined && <ErrorPanel error={error} />}
          {!isRead && error === undefined && <Pending since={models.since} />}
          {models.data !== undefined && virtualModels.data !== undefined && (
            <Lost lost={lostWith(name, models.data, virtualModels.data)} />
          )}
        </>
      }
      basis={providerBasis(row)}
      run={(ifMatch) =>
        sendChange({
          ...{ method: 'DELETE', of: '/admin/provider-credentials/{name}', ifMatch },
          at: `/admin/provider-credentials/${encodeURIComponent(name)}`,
        })
      }
      onClose={onClose}
      onDone={onDone}
    />
  );
}

const MOST_NAMES = 20;

function namesText(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return `${names.slice(0, MOST_NAMES).join(', ')}${more > 0 ? ` and ${formatCount(more)} more` : ''}`;
}

function Lost({ lost }: { readonly lost: LostTargets }) {
  return (
    <ul class="models-effect">
      <li>
        {lost.models.length === 0 ? (
          'It lists no models now.'
        ) : (
          <>
            {formatCount(lost.models.length)} {lost.models.length === 1 ? 'model is' : 'models are'} no longer
            available: <Recorded text={namesText(lost.models)} />.
          </>
        )}
      </li>
      {lost.none.length > 0 && (
        <li>
          Virtual models without any target left: <Recorded text={namesText(lost.none)} />.
        </li>
      )}
      {lost.fewer.length > 0 && (
        <li>
          Virtual models that lose a target and keep another: <Recorded text={namesText(lost.fewer)} />.
        </li>
      )}
      {lost.none.length + lost.fewer.length === 0 && <li>No virtual model loses a target.</li>}
    </ul>
  );
}
