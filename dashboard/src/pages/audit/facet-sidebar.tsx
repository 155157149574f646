import { useMemo } from 'preact/hooks';
import type { Answer } from '../../api/client.ts';
import { type Loaded, useAnswer } from '../../api/use-answer.ts';
import type { QueryValue } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCompact, formatCount } from '../../format/numbers.ts';
import { storedSignal } from '../../settings/stored.ts';
import { ErrorPanel } from '../../ui/states.tsx';
import { type AuditFilter, type FilterName, filterTitle, toggled } from './filter.ts';
import { Waiting } from './waiting.tsx';

type Facet = Answer<'/admin/audit/facets'>['facets'][number];
type Field = Facet['field'];

/** The parameter that filters by a value of the field. */
const parameters: Readonly<Record<Field, FilterName>> = {
  outcome: 'outcome',
  status_code: 'status_code',
  error_code: 'error_code',
  user_path: 'user_path',
  auth_key_id: 'auth_key_id',
  label: 'label',
  requested_model: 'requested_model_is',
  provider_name: 'provider_name',
  model: 'provider_model',
  endpoint: 'endpoint',
  method: 'method',
  stream: 'stream',
  cache_type: 'cache_type',
  guardrail_verdict: 'guardrail_verdict',
  session_id: 'session_id',
};
const fields = Object.keys(parameters) as readonly Field[];

/** Closed groups are not counted. */
const openFields = storedSignal<readonly string[]>(
  'audit-facets',
  ['outcome', 'status_code', 'error_code', 'user_path', 'auth_key_id', 'requested_model', 'provider_name'],
  (stored) => (Array.isArray(stored) && stored.every((name) => typeof name === 'string') ? stored : undefined),
);

export interface Facets {
  readonly answer: Loaded<Answer<'/admin/audit/facets'>>;
  /** Names of keys by id, as far as they are known. */
  readonly keyNames: ReadonlyMap<string, string>;
}

/** @param query filter and time range as the gateway reads them */
export function useFacets(query: Readonly<Record<string, QueryValue>>): Facets {
  // The names of keys are needed in the table, too.
  const counted = fields.filter((field) => field === 'auth_key_id' || openFields.value.includes(field));
  const answer = useAnswer('/admin/audit/facets', { ...query, fields: counted });
  const keyNames = useMemo(() => {
    const values = answer.data?.facets.find(({ field }) => field === 'auth_key_id')?.values ?? [];
    return new Map(values.flatMap(({ value, name }) => (name === undefined ? [] : [[value, name] as const])));
  }, [answer.data]);
  return { answer, keyNames };
}

interface FacetSidebarProps {
  readonly facets: Facets;
  readonly filter: AuditFilter;
  readonly onChange: (filter: AuditFilter) => void;
}

/** The most frequent values of each field with their numbers of requests. */
export function FacetSidebar({ facets: { answer }, filter, onChange }: FacetSidebarProps) {
  const { data, error, isLoading, since, cancel, reload } = answer;
  const byField = new Map<Field, Facet>(data?.facets.map((facet) => [facet.field, facet]));
  return (
    <div class="facets">
      {data === undefined && (
        <Waiting isLoading={isLoading} isFailed={error !== undefined} since={since} onCancel={cancel} onLoad={reload} />
      )}
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {(data === undefined ? [] : fields).map((field) => (
        <FacetGroup
          key={field}
          field={field}
          facet={byField.get(field)}
          chosen={filter[parameters[field]] ?? []}
          onToggle={(value) => onChange(toggled(filter, parameters[field], value))}
        />
      ))}
    </div>
  );
}

interface FacetGroupProps {
  readonly field: Field;
  readonly facet: Facet | undefined;
  readonly chosen: readonly string[];
  readonly onToggle: (value: string) => void;
}

function FacetGroup({ field, facet, chosen, onToggle }: FacetGroupProps) {
  const isOpen = openFields.value.includes(field);
  const values = facet?.values ?? [];
  const known = new Set(values.map(({ value }) => value));
  const others = chosen.filter((value) => !known.has(value)).map((value) => ({ value, requests: 0, name: undefined }));
  return (
    <details
      class="facet"
      open={isOpen}
      onToggle={(event) => {
        const open = event.currentTarget.open;
        if (open === isOpen) return;
        openFields.value = open ? [...openFields.value, field] : openFields.value.filter((name) => name !== field);
      }}
    >
      <summary>
        {filterTitle(parameters[field])}
        {chosen.length > 0 && <span class="facet-chosen"> {formatCount(chosen.length)} chosen</span>}
      </summary>
      {isOpen && facet !== undefined && values.length + others.length === 0 && <p class="facet-none">No values</p>}
      {isOpen && (
        <ul>
          {[...others, ...values].map(({ value, requests, name }) => (
            <li key={value}>
              <label class="facet-value">
                <input type="checkbox" checked={chosen.includes(value)} onChange={() => onToggle(value)} />
                <span class="facet-text">
                  <Recorded text={name ?? value} />
                </span>
                <span class="facet-count" title={`${formatCount(requests)} requests`}>
                  {formatCompact(requests)}
                  <span class="visually-hidden"> requests</span>
                </span>
              </label>
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}
