import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { virtualModelBasis } from './current-versions.ts';
import type { VirtualModelRow } from './types.ts';

interface RemoveVirtualModelProps {
  readonly row: VirtualModelRow;
  readonly others: readonly VirtualModelRow[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Removes a virtual model or an access policy, and says before who uses it. */
export function RemoveVirtualModel({ row, others, onClose, onDone }: RemoveVirtualModelProps) {
  const [from] = useState(() => new Date(Date.now() - 86_400_000).toISOString());
  const { source, kind, user_paths } = row;
  const isPolicy = kind === 'policy';
  const used = useAnswer('/admin/audit/stats', { from, requested_model_is: source }, { enabled: !isPolicy });
  const naming = others.filter(({ targets = [] }) =>
    targets.some(({ provider, model }) => provider === undefined && model === source),
  );
  return (
    <ConfirmDialog
      title={isPolicy ? `Remove the access policy for "${source}"?` : `Remove the virtual model "${source}"?`}
      confirmLabel={isPolicy ? 'Remove the access policy' : 'Remove the virtual model'}
      effect={
        <ul class="models-effect">
          {isPolicy ? (
            <li>
              The next wider policy decides about these models; without one, <code>MODELS_ENABLED_BY_DEFAULT</code>.
            </li>
          ) : (
            <li>
              Requests for this name go to a model of a provider with this name. Without one, they are refused with 404.
            </li>
          )}
          {used.data !== undefined && (
            <li>{formatCount(used.data.summary.requests)} requests of the last 24 hours named it.</li>
          )}
          <li>
            {user_paths.length === 0 ? (
              'It applies to all user paths and keys.'
            ) : (
              <>
                It applies to <Recorded text={user_paths.join(', ')} /> and the keys of these paths.
              </>
            )}
          </li>
          {naming.length > 0 && (
            <li>
              It is a target of <Recorded text={naming.map((one) => one.source).join(', ')} />: the gateway refuses the
              removal until they have another one.
            </li>
          )}
        </ul>
      }
      basis={virtualModelBasis(row)}
      run={(ifMatch) => sendChange({ method: 'DELETE', of: '/admin/virtual-models', json: { source }, ifMatch })}
      onClose={onClose}
      onDone={onDone}
    />
  );
}
