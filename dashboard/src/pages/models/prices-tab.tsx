import { useState } from 'preact/hooks';
import { access } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import { setQuery } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { Button } from '../../ui/button.tsx';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { Time } from '../../ui/facts.tsx';
import { TextField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { otherRates, rateText, sourceText } from './model-prices.ts';
import { closeEditor, openEditor, parameter } from './models-address.ts';
import { PriceDialog } from './price-dialog.tsx';
import type { PriceOverride } from './price-override.ts';
import { RecalculateDialog } from './recalculate-dialog.tsx';
import { RemovePrice } from './remove-price.tsx';
import type { ModelRow } from './types.ts';

/** The prices in force, and the overrides that administrators set. */
export function PricesTab() {
  const [removing, setRemoving] = useState<PriceOverride | undefined>(undefined);
  const overrides = useAnswer('/admin/model-pricing-overrides', asOfQuery());
  const models = useAnswer('/admin/models');
  const rows = overrides.data;
  const edited = rows?.find(({ selector }) => selector === parameter('edit'));
  const added = parameter('add') === '' ? undefined : parameter('add');
  const done = () => {
    closeEditor();
    setRemoving(undefined);
    overrides.reload();
    models.reload();
  };
  const canChange = !isPast.value;
  return (
    <div class="models-stack">
      <Panel
        title="Prices that administrators set"
        actions={
          canChange && (
            <span class="models-row-actions">
              <Button onClick={() => openEditor({ add: '/' })}>Set a price</Button>
              <Recalculation />
            </span>
          )
        }
      >
        {overrides.error !== undefined && <ErrorPanel error={overrides.error} onRetry={overrides.reload} />}
        {rows === undefined && overrides.error === undefined && (
          <Pending since={overrides.since} onCancel={overrides.cancel} />
        )}
        {rows !== undefined && rows.length === 0 && (
          <EmptyState title={isPast.value ? 'No price was set.' : 'No price is set.'}>
            <p>Prices of the configuration and list prices apply.</p>
          </EmptyState>
        )}
        {rows !== undefined && rows.length > 0 && (
          <Overrides rows={rows} canChange={canChange} onRemove={setRemoving} />
        )}
      </Panel>
      {!isPast.value && <PricesInForce models={models} />}
      {canChange && (edited !== undefined || added !== undefined) && rows !== undefined && (
        <PriceDialog
          key={edited?.selector ?? `new ${added}`}
          override={edited}
          selector={added ?? ''}
          models={models.data ?? []}
          onClose={closeEditor}
          onDone={done}
        />
      )}
      {removing !== undefined && (
        <RemovePrice
          override={removing}
          models={models.data ?? []}
          onClose={() => setRemoving(undefined)}
          onDone={done}
        />
      )}
    </div>
  );
}

/** The button, or the setting that switches recalculation on. */
function Recalculation() {
  const [isOpen, setOpen] = useState(false);
  if (access.value?.features['USAGE_PRICING_RECALCULATION_ENABLED'] === 'off') {
    return (
      <span class="models-detail">
        Recalculation is off: <code>USAGE_PRICING_RECALCULATION_ENABLED=true</code> switches it on.
      </span>
    );
  }
  return (
    <>
      <Button onClick={() => setOpen(true)}>Recalculate past costs</Button>
      {isOpen && <RecalculateDialog onClose={() => setOpen(false)} />}
    </>
  );
}

interface OverridesProps {
  readonly rows: readonly PriceOverride[];
  readonly canChange: boolean;
  readonly onRemove: (override: PriceOverride) => void;
}

function Overrides({ rows, canChange, onRemove }: OverridesProps) {
  return (
    <div class="plain-table-box" role="group" aria-label="Prices that administrators set" tabIndex={0}>
      <table class="plain-table models-table" aria-label="Prices that administrators set">
        <thead>
          <tr>
            <th scope="col">Models</th>
            <th scope="col" data-align="end">
              Input
            </th>
            <th scope="col" data-align="end">
              Output
            </th>
            <th scope="col">Other rates</th>
            <th scope="col">Changed</th>
            {canChange && <th scope="col">Actions</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const { tiers, ...rates } = row.pricing;
            const others = otherRates(rates);
            return (
              <tr key={row.selector}>
                <th scope="row">
                  <Recorded text={row.selector === '/' ? '/ (everything)' : row.selector} />
                </th>
                <td data-align="end">{rateText(rates.input_per_mtok)}</td>
                <td data-align="end">{rateText(rates.output_per_mtok)}</td>
                <td>
                  {[...(others === '' ? [] : [others]), ...(tiers === undefined ? [] : [`${tiers.length} tiers`])].join(
                    ', ',
                  ) || '–'}
                </td>
                <td>
                  <Time at={row.updated_at} />
                </td>
                {canChange && (
                  <td>
                    <span class="models-row-actions">
                      <Button
                        label={`Edit the price of ${row.selector}`}
                        onClick={() => openEditor({ edit: row.selector })}
                      >
                        Edit
                      </Button>
                      <Button label={`Remove the price of ${row.selector}`} onClick={() => onRemove(row)}>
                        Remove
                      </Button>
                    </span>
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function PricesInForce({ models }: { readonly models: ReturnType<typeof useAnswer<'/admin/models'>> }) {
  const search = parameter('q').trim().toLowerCase();
  const rows = models.data?.filter(({ selector }) => selector.toLowerCase().includes(search));
  return (
    <Panel
      title="Prices in force"
      actions={
        <TextField
          label="Search"
          hideLabel
          type="search"
          placeholder="Model or provider"
          value={parameter('q')}
          onInput={(q) => setQuery({ q })}
        />
      }
    >
      <p class="models-note">
        In US dollars per million tokens. Each rate comes from the most specific source: a set price, the configuration,
        then the list price. A cost without a price is unknown, not zero.
      </p>
      {models.error !== undefined && <ErrorPanel error={models.error} onRetry={models.reload} />}
      {rows === undefined && models.error === undefined && <Pending since={models.since} onCancel={models.cancel} />}
      {rows !== undefined && rows.length === 0 && <EmptyState title="No model matches." />}
      {rows !== undefined && rows.length > 0 && (
        <DataTable label="Prices in force" columns={columns} rows={rows} rowKey={({ selector }) => selector} />
      )}
    </Panel>
  );
}

const columns: readonly Column<ModelRow>[] = [
  { name: 'model', title: 'Model', width: 18, cell: (row) => <Recorded text={row.selector} /> },
  {
    ...{ name: 'input', title: 'Input', width: 6, align: 'end' },
    cell: (row) => rateText(row.price?.rates['input_per_mtok']),
  },
  {
    ...{ name: 'output', title: 'Output', width: 6, align: 'end' },
    cell: (row) => rateText(row.price?.rates['output_per_mtok']),
  },
  {
    ...{ name: 'others', title: 'Other rates', width: 14 },
    cell: (row) => {
      if (row.price === undefined) return '–';
      const others = [otherRates(row.price.rates), row.price.has_tiers ? 'larger requests differ' : ''];
      const text = others.filter((one) => one !== '').join(', ');
      return <span title={text}>{text || '–'}</span>;
    },
  },
  {
    ...{ name: 'source', title: 'Source', width: 12 },
    cell: (row) => (row.price === undefined ? 'no price' : sourceText(row.price.source)),
  },
  {
    ...{ name: 'set', title: 'Change', width: 6 },
    cell: (row) => (
      <Button look="quiet" label={`Set the price of ${row.selector}`} onClick={() => openEditor({ add: row.selector })}>
        Set
      </Button>
    ),
  },
];
