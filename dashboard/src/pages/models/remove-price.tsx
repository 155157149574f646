import { sendChange } from '../../api/send-change.ts';
import { formatCount } from '../../format/numbers.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { priceBasis } from './current-versions.ts';
import type { PriceOverride } from './price-override.ts';
import type { ModelRow } from './types.ts';

interface RemovePriceProps {
  readonly override: PriceOverride;
  readonly models: readonly ModelRow[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function RemovePrice({ override, models, onClose, onDone }: RemovePriceProps) {
  const { selector } = override;
  const affected = models.filter(({ price }) => price?.source.split('+').includes(`override:${selector}`));
  return (
    <ConfirmDialog
      title={`Remove the price of "${selector}"?`}
      confirmLabel="Remove the price"
      effect={
        <p>
          Requests that end from now on cost what the next source says: a wider set price, the configuration or the list
          price. Without one their cost is unknown, and budgets do not count them. {formatCount(affected.length)} listed{' '}
          {affected.length === 1 ? 'model uses' : 'models use'} this price now. Recorded costs stay.
        </p>
      }
      basis={priceBasis(override)}
      run={(ifMatch) =>
        sendChange({ method: 'DELETE', of: '/admin/model-pricing-overrides', json: { selector }, ifMatch })
      }
      onClose={onClose}
      onDone={onDone}
    />
  );
}
