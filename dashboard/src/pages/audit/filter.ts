/**
 * The filter of requests in the address of a page. Its parameters have the names and the form of the API's, so that an
 * address and a request to the gateway differ in the time range only.
 */

/** How a parameter is written: words with commas or by repetition, texts by repetition, one text. */
type Kind = 'words' | 'texts' | 'text';

interface Parameter {
  readonly title: string;
  readonly kind: Kind;
  /** Such as `contains`; default: `is`. */
  readonly relation?: string;
}

const parameters = {
  id: { title: 'Id', kind: 'text' },
  search: { title: 'Text', kind: 'text', relation: 'contains' },
  outcome: { title: 'Outcome', kind: 'words' },
  status_class: { title: 'Status class', kind: 'words' },
  status_code: { title: 'Status', kind: 'words' },
  error_code: { title: 'Error code', kind: 'texts' },
  error_type: { title: 'Error type', kind: 'text', relation: 'contains' },
  user_path: { title: 'User path', kind: 'text', relation: 'is in' },
  auth_key_id: { title: 'Key', kind: 'texts' },
  label: { title: 'Label', kind: 'texts' },
  session_id: { title: 'Session', kind: 'texts' },
  has_session: { title: 'Belongs to a session', kind: 'text' },
  requested_model_is: { title: 'Requested model', kind: 'texts' },
  requested_model: { title: 'Requested model', kind: 'text', relation: 'contains' },
  provider_name: { title: 'Provider', kind: 'texts' },
  provider: { title: 'Provider or its type', kind: 'text', relation: 'contains' },
  provider_model: { title: 'Model', kind: 'texts' },
  endpoint: { title: 'Endpoint', kind: 'texts' },
  path: { title: 'Path', kind: 'text', relation: 'contains' },
  method: { title: 'Method', kind: 'texts' },
  stream: { title: 'Stream', kind: 'text' },
  cache_type: { title: 'Cache', kind: 'words' },
  guardrail_verdict: { title: 'Guardrail verdict', kind: 'words' },
  guardrail: { title: 'Guardrail', kind: 'texts', relation: 'acted:' },
  guardrails_edited: { title: 'Changed by guardrails', kind: 'text' },
  workflow: { title: 'Workflow', kind: 'text' },
  min_duration_ms: { title: 'Duration in ms', kind: 'text', relation: 'at least' },
  user_agent: { title: 'User agent', kind: 'text', relation: 'contains' },
} as const satisfies Readonly<Record<string, Parameter>>;

export type FilterName = keyof typeof parameters;
export const filterNames = Object.keys(parameters) as readonly FilterName[];

/** Values by parameter; parameters without a value are absent. */
export type AuditFilter = Readonly<Partial<Record<FilterName, readonly string[]>>>;

export function filterTitle(name: FilterName): string {
  return parameters[name].title;
}

/** `Status is`, `Text contains`. */
export function filterSentence(name: FilterName): string {
  const { title, relation }: Parameter = parameters[name];
  return `${title} ${relation ?? 'is'}`;
}

export function filterIn(query: URLSearchParams): AuditFilter {
  const filter: Partial<Record<FilterName, readonly string[]>> = {};
  for (const name of filterNames) {
    const values = valuesOf(parameters[name].kind, query.getAll(name));
    if (values.length > 0) filter[name] = values;
  }
  return filter;
}

function valuesOf(kind: Kind, given: readonly string[]): readonly string[] {
  const separate = kind === 'words' ? given.flatMap((value) => value.split(',')) : given;
  const values = [...new Set(separate.filter((value) => value !== ''))];
  return kind === 'text' ? values.slice(-1) : values;
}

/** The parameters of an address or a request; undefined removes one. */
export function queryOfFilter(filter: AuditFilter): Record<FilterName, readonly string[] | undefined> {
  const members = filterNames.map((name) => [name, filter[name]] as const);
  return Object.fromEntries(members) as Record<FilterName, readonly string[] | undefined>;
}

/** The same with another value of a parameter, or without it. Of a parameter with one value, it becomes the value. */
export function toggled(filter: AuditFilter, name: FilterName, value: string): AuditFilter {
  const before = filter[name] ?? [];
  if (before.includes(value))
    return withValues(
      filter,
      name,
      before.filter((one) => one !== value),
    );
  return withValues(filter, name, parameters[name].kind === 'text' ? [value] : [...before, value]);
}

export function withValues(filter: AuditFilter, name: FilterName, values: readonly string[]): AuditFilter {
  const { [name]: _, ...others } = filter;
  const given = values.filter((value) => value !== '');
  return given.length === 0 ? others : { ...others, [name]: given };
}

export interface ActiveFilter {
  readonly name: FilterName;
  readonly value: string;
}

/** Each value by itself. */
export function activeFilters(filter: AuditFilter): readonly ActiveFilter[] {
  return filterNames.flatMap((name) => (filter[name] ?? []).map((value) => ({ name, value })));
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Ids of responses and items: `resp_…`, `msg_…`, `call_…`. */
const PREFIXED = /^[a-z]{2,8}_[\w-]{12,}$/;

/** Whether a text can only be an id, and not a word to search for. */
export function isSurelyId(text: string): boolean {
  return UUID.test(text) || PREFIXED.test(text);
}

/** Whether a text may be an id: one without spaces. Clients choose the ids of requests and sessions. */
export function mayBeId(text: string): boolean {
  return /^\S{3,200}$/.test(text);
}

/** The filter after a text was entered in the search field. An id or a text takes the place of the one before. */
export function searchedFor(filter: AuditFilter, text: string): AuditFilter {
  const { id: _id, search: _search, ...others } = filter;
  const wanted = text.trim();
  if (wanted === '') return others;
  return isSurelyId(wanted) ? { ...others, id: [wanted] } : { ...others, search: [wanted] };
}
