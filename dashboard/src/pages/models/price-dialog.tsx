import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog, useProblem } from '../../ui/change-dialog.tsx';
import { TextField } from '../../ui/fields.tsx';
import type { FormValue } from '../../ui/schema-fields.ts';
import { SchemaForm } from '../../ui/schema-form.tsx';
import { currentPrice } from './current-versions.ts';
import { otherRateFields, usualRates } from './price-fields.ts';
import type { PriceOverride } from './price-override.ts';
import type { ModelRow } from './types.ts';

interface PriceDialogProps {
  /** Undefined for a new one. */
  readonly override: PriceOverride | undefined;
  /** Of a new one; `/` when it is not chosen yet. */
  readonly selector: string;
  readonly models: readonly ModelRow[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function PriceDialog({ override, selector: begin, models, onClose, onDone }: PriceDialogProps) {
  const [selector, setSelector] = useState(override?.selector ?? (begin === '/' ? '' : begin));
  const [pricing, setPricing] = useState<FormValue>(override?.pricing ?? {});
  const [revision] = useState(override?.revision ?? 'none');
  const hasOthers = otherRateFields.some(({ key }) => pricing[key] !== undefined);
  const body = { selector: selector.trim(), pricing };
  return (
    <ChangeDialog
      title={override === undefined ? 'Set a price' : `Price of ${override.selector}`}
      submitLabel="Save the price"
      revision={revision}
      save={(ifMatch) => sendChange({ method: 'PUT', of: '/admin/model-pricing-overrides', json: body, ifMatch })}
      mine={() => pricing}
      readCurrent={() => currentPrice(body.selector)}
      canSubmit={body.selector !== '' && Object.keys(pricing).length > 0}
      onClose={onClose}
      onDone={onDone}
    >
      {override === undefined && <SelectorField value={selector} onInput={setSelector} models={models} />}
      <SchemaForm fields={usualRates} value={pricing} onChange={setPricing} parameter="pricing" />
      <details open={hasOthers}>
        <summary>Other rates and tiers</summary>
        <div class="models-more">
          <SchemaForm fields={otherRateFields} value={pricing} onChange={setPricing} parameter="pricing" />
        </div>
      </details>
      <p class="models-note">
        It applies to requests that end from now on. Omitted rates come from the next source. Past costs change only by
        a recalculation.
      </p>
    </ChangeDialog>
  );
}

interface SelectorFieldProps {
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly models: readonly ModelRow[];
}

function SelectorField({ value, onInput, models }: SelectorFieldProps) {
  return (
    <TextField
      label="Models"
      help="<provider>/<model>, a model of any provider, <provider>/ for all of a provider, or / for everything."
      required
      value={value}
      onInput={onInput}
      suggestions={['/', ...models.map(({ selector }) => selector)]}
      problem={useProblem('selector')}
    />
  );
}
