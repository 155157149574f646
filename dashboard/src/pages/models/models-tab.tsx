import { isGlobal } from '../../api/access.ts';
import type { Answer } from '../../api/client.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { isPast } from '../../app/as-of.ts';
import { hrefOf, setQuery } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { rateText, sourceText } from './model-prices.ts';
import { parameter, tabHref } from './models-address.ts';
import type { ModelRow } from './types.ts';

type Category = Answer<'/admin/models/categories'>[number];

/** Every model, with filters in the address. */
export function ModelsTab() {
  const category = parameter('category') || 'all';
  const provider = parameter('provider');
  const search = parameter('q');
  const models = useAnswer('/admin/models');
  const categories = useAnswer('/admin/models/categories');
  const all = models.data;
  const rows = all?.filter((row) => matches(row, { category, provider, search: search.trim().toLowerCase() }));
  const providers = [...new Set(all?.map((row) => row.provider_name))].sort();
  const shown = rows?.length ?? 0;
  return (
    <>
      {isPast.value && <p class="models-note">The models are the current ones. Only settings have a past.</p>}
      <div class="models-filters">
        <TextField
          label="Search"
          type="search"
          placeholder="Model, provider or user path"
          value={search}
          onInput={(q) => setQuery({ q })}
        />
        <SelectField
          label="Category"
          value={category}
          choices={categoryChoices(categories.data, category)}
          onChange={(name) => setQuery({ category: name === 'all' ? undefined : name })}
        />
        <SelectField
          label="Provider"
          value={provider}
          choices={[
            { value: '', title: 'All' },
            ...[...new Set([...providers, ...(provider === '' ? [] : [provider])])].map((name) => ({
              value: name,
              title: name,
            })),
          ]}
          onChange={(name) => setQuery({ provider: name })}
        />
        {all !== undefined && (
          <p class="models-count" role="status">
            {shown === all.length
              ? `${formatCount(shown)} models`
              : `${formatCount(shown)} of ${formatCount(all.length)} models`}
          </p>
        )}
      </div>
      {models.error !== undefined && <ErrorPanel error={models.error} onRetry={models.reload} />}
      {all === undefined && models.error === undefined && <Pending since={models.since} onCancel={models.cancel} />}
      {all !== undefined && all.length === 0 && <NoModels />}
      {rows !== undefined && all !== undefined && all.length > 0 && rows.length === 0 && (
        <EmptyState title="No model matches.">
          <p>Change the search, the category or the provider.</p>
        </EmptyState>
      )}
      {rows !== undefined && rows.length > 0 && (
        <DataTable
          label="Models"
          columns={isGlobal.value ? columns : ofSubtree}
          rows={rows}
          rowKey={({ selector }) => selector}
        />
      )}
    </>
  );
}

function NoModels() {
  return (
    <EmptyState title="No model is available.">
      <p>
        A provider is missing, or has not returned its list yet.{' '}
        {isGlobal.value && (
          <>
            <a href={tabHref('providers')}>Providers</a> has the state of each.
          </>
        )}
      </p>
    </EmptyState>
  );
}

function matches(
  row: ModelRow,
  { category, provider, search }: { category: string; provider: string; search: string },
): boolean {
  if (category !== 'all' && row.category !== category) return false;
  if (provider !== '' && row.provider_name !== provider) return false;
  const texts = [row.selector, ...(row.access.user_paths ?? [])];
  return search === '' || texts.some((text) => text.toLowerCase().includes(search));
}

function categoryChoices(categories: readonly Category[] | undefined, shown: string) {
  const choices = (categories ?? []).map(({ category, display_name, count }) => ({
    value: category,
    title: `${display_name} (${formatCount(count)})`,
  }));
  return choices.some(({ value }) => value === shown) ? choices : [...choices, { value: shown, title: shown }];
}

/** Digits of the context window, where the provider states it. */
function contextOf({ model }: ModelRow): string {
  const size = model.metadata?.['context_window'];
  return typeof size === 'number' ? formatCount(size) : '–';
}

const price: Column<ModelRow>[] = [
  {
    ...{ name: 'input', title: 'Input', width: 5, align: 'end' },
    cell: (row) => rateText(row.price?.rates['input_per_mtok']),
  },
  {
    ...{ name: 'output', title: 'Output', width: 5, align: 'end' },
    cell: (row) => rateText(row.price?.rates['output_per_mtok']),
  },
  {
    ...{ name: 'source', title: 'Source of the price', width: 12 },
    cell: (row) => (
      <a href={tabHref('prices', { q: row.selector })}>
        {row.price === undefined ? 'no price' : sourceText(row.price.source)}
      </a>
    ),
  },
];

const ofSubtree: Column<ModelRow>[] = [
  { name: 'model', title: 'Model', width: 13, cell: (row) => <Recorded text={row.model.id} /> },
  { name: 'provider', title: 'Provider', width: 7, cell: (row) => row.provider_name },
  { name: 'category', title: 'Category', width: 8, cell: (row) => row.category?.replaceAll('_', ' ') ?? '–' },
  { name: 'context', title: 'Context', width: 5.5, align: 'end', cell: contextOf },
  { name: 'access', title: 'May use it', width: 8.5, cell: (row) => <Access row={row} /> },
  { name: 'links', title: 'Requests', width: 8.5, cell: (row) => <Links row={row} /> },
];

const columns: readonly Column<ModelRow>[] = [...ofSubtree.slice(0, 4), ...price, ...ofSubtree.slice(4)];

function Access({ row }: { readonly row: ModelRow }) {
  const { effective_enabled, default_enabled, user_paths, override } = row.access;
  const decided = override === undefined ? undefined : `Decided by the access policy for ${override.selector}`;
  if (override?.enabled === false || (override === undefined && !default_enabled)) {
    return (
      <Badge tone="warn" title={decided ?? 'MODELS_ENABLED_BY_DEFAULT=false, and no access policy permits it.'}>
        nobody
      </Badge>
    );
  }
  if (user_paths !== undefined) {
    return (
      <span title={decided}>{user_paths.length === 0 ? 'other paths' : <Recorded text={user_paths.join(', ')} />}</span>
    );
  }
  return effective_enabled ? <span title={decided}>everyone</span> : <span title={decided}>not your paths</span>;
}

function Links({ row }: { readonly row: ModelRow }) {
  const name = { provider: row.provider_name, model: row.model.id };
  return (
    <span class="models-links">
      <a href={hrefOf('/usage', name)} aria-label={`Usage of ${row.selector}`}>
        Usage
      </a>
      <a
        href={hrefOf('/audit', { provider_name: name.provider, provider_model: name.model })}
        aria-label={`Audit of ${row.selector}`}
      >
        Audit
      </a>
    </span>
  );
}
