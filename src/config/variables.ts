/**
 * Settings in environment variables: providers (`<TYPE>_BASE_URL`, `<TYPE>_<NAME>_API_KEY`), budgets and rate limits
 * (`SET_BUDGET_TEAM__ALPHA="daily=10,weekly=50"`).
 */

import type { RawSettings, Source } from './problem.ts';
import type { ProviderTypes } from './schema.ts';
import type { Environment } from './sources.ts';

export interface ProviderVariables {
  readonly name: string;
  readonly type: string;
  readonly baseUrl?: Variable;
  /** In the order of their rotation: `_API_KEY`, `_API_KEY_2`, `_API_KEY_3`, … */
  readonly apiKeys: readonly Variable[];
  readonly models?: Variable;
  /** Settings of its connections, and the type's further options, by their name in chancery.yaml. */
  readonly options: Readonly<Record<string, Variable>>;
}

interface Variable {
  readonly variable: string;
  readonly value: string;
}

interface Draft {
  name: string;
  type: string;
  baseUrl?: Variable;
  keys: { turn: number; from: Variable }[];
  models?: Variable;
  options: Record<string, Variable>;
}

/** Only settings of its connections are set, which does not declare a provider. */
export function hasOnlyConnectionOptions({ baseUrl, apiKeys, models, options }: ProviderVariables): boolean {
  if (baseUrl !== undefined || models !== undefined || apiKeys.length > 0) return false;
  return Object.keys(options).every((option) => connectionOptions.includes(option));
}

export const timeoutOptions = ['timeout', 'stream_idle_timeout'];
const connectionOptions = [...timeoutOptions, 'proxy_url', 'ca_file', 'client_cert_file', 'client_key_file'];

/** `LLAMACPP` for `llamacpp`, `BEDROCK_MANTLE` for `bedrock-mantle`. */
export function variablePrefix(typeOrName: string): string {
  return typeOrName.toUpperCase().replaceAll('-', '_');
}

/** Every provider of which some variable is set (empty ones count as not set), by type and then by name. */
export function providersInEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  types: ProviderTypes,
): { providers: ProviderVariables[]; notices: string[] } {
  const drafts = new Map<string, Draft>();
  const notices: string[] = [];
  const split = variableSplitter(types);
  for (const [variable, value] of Object.entries(env)) {
    if (value === undefined || value.trim() === '') continue;
    const found = split(variable);
    if (found === undefined) continue;
    const { type, prefix } = found;
    if (found.suffix !== undefined && !isInstanceName(found.suffix)) {
      notices.push(
        `${variable} is ignored: between ${prefix} and ${found.field} only letters, digits and single underscores are allowed`,
      );
      continue;
    }
    const name = found.suffix === undefined ? type : `${type}-${found.suffix.toLowerCase().replaceAll('_', '-')}`;
    const draft = drafts.get(name) ?? { name, type, keys: [], options: {} };
    drafts.set(name, draft);
    const note = record(draft, found.field, { variable, value: value.trim() });
    if (note !== undefined) notices.push(note);
  }
  const typeOrder = Object.keys(types);
  const providers = [...drafts.values()]
    .sort((a, b) => typeOrder.indexOf(a.type) - typeOrder.indexOf(b.type) || (a.name < b.name ? -1 : 1))
    .map(({ keys, ...draft }) => ({
      ...draft,
      apiKeys: keys.sort((a, b) => a.turn - b.turn).map(({ from }) => from),
    }))
    .filter((one) => one.baseUrl ?? one.models ?? one.apiKeys[0] ?? Object.values(one.options)[0]);
  return { providers, notices };
}

/** @returns a function that splits the name of a variable of a provider, and returns undefined for other variables */
export function variableSplitter(types: ProviderTypes) {
  // The longest prefix first: BEDROCK_MANTLE_BASE_URL is of type bedrock-mantle, not an instance of bedrock.
  const prefixes = Object.keys(types)
    .map((type) => ({ type, prefix: `${variablePrefix(type)}_` }))
    .sort((a, b) => b.prefix.length - a.prefix.length);
  return (variable: string) => {
    const owner = prefixes.find(({ prefix }) => variable.startsWith(prefix));
    if (owner === undefined) return undefined;
    const extras = Object.keys(types[owner.type]?.extra ?? {});
    const found = splitVariable(variable.slice(owner.prefix.length), extras);
    return found && { ...owner, ...found, member: found.field.replace(/_\d+$/, '').toLowerCase() };
  };
}

/** Splits what follows the type: `GPU_API_KEY_2` into `GPU` and `API_KEY_2`. Undefined for other variables. */
function splitVariable(rest: string, extras: readonly string[]): { suffix?: string; field: string } | undefined {
  const named = connectionOptions.map((option) => option.toUpperCase());
  const fields = ['BASE_URL', 'API_KEY(?:_[0-9]+)?', 'MODELS', ...named, ...extras];
  // The shortest suffix, so that the longest field wins.
  const match = new RegExp(`^(?:(.*?)_)??(${fields.join('|')})$`).exec(rest);
  return match === null ? undefined : { suffix: match[1], field: match[2] ?? '' };
}

function isInstanceName(suffix: string): boolean {
  return /^[A-Za-z0-9]+(_[A-Za-z0-9]+)*$/.test(suffix);
}

function record(draft: Draft, field: string, from: Variable): string | undefined {
  if (field === 'BASE_URL') draft.baseUrl = from;
  else if (field === 'MODELS') draft.models = from;
  else if (field === 'API_KEY') draft.keys.push({ turn: 1, from });
  else if (field.startsWith('API_KEY_')) {
    const turn = Number(field.slice('API_KEY_'.length));
    if (turn < 2) return `${from.variable} is ignored: further keys are numbered from 2`;
    draft.keys.push({ turn, from });
  } else draft.options[field.toLowerCase()] = from;
  return undefined;
}

/** Budgets and rate limits in environment variables: `SET_BUDGET_TEAM__ALPHA="daily=10,weekly=50"`. */
interface Family {
  /** Where their rows are in chancery.yaml, and the member that identifies a row. */
  readonly path: readonly [string, string];
  readonly by: string;
  readonly prefix: string;
  /** The rest of the variable's name after the prefix, as the value of that member. */
  subject(suffix: string): string;
  limits(pairs: readonly (readonly [name: string, value: string])[]): Record<string, string>[];
}

const families: readonly Family[] = [
  {
    path: ['budgets', 'user_paths'],
    by: 'path',
    prefix: 'SET_BUDGET_',
    subject: userPathOf,
    limits: (pairs) => pairs.map(([period, amount]) => ({ period, amount })),
  },
  {
    path: ['rate_limits', 'user_paths'],
    by: 'path',
    prefix: 'SET_RATE_LIMIT_',
    subject: userPathOf,
    limits: rateLimits,
  },
  {
    path: ['rate_limits', 'providers'],
    by: 'name',
    prefix: 'SET_PROVIDER_RATE_LIMIT_',
    subject: (suffix) => suffix.toLowerCase().replaceAll('_', '-'),
    limits: rateLimits,
  },
];

/** Adds the rows of the environment to those of the file; it replaces the file's row for the same path or provider. */
export function overlayLimits(raw: RawSettings, env: Environment, sourceOf: (variable: string) => Source): void {
  for (const { path, by, prefix, subject, limits } of families) {
    const variables = Object.keys(env).filter((name) => name.startsWith(prefix) && (env[name] ?? '').trim() !== '');
    const [first] = variables.sort();
    if (first === undefined) continue;
    const rows = variables.map((variable) => ({
      [by]: subject(variable.slice(prefix.length)),
      limits: limitsIn((env[variable] ?? '').trim(), limits),
    }));
    raw.addRows(path, rows, (row) => subjectOf(row[by], by), { source: sourceOf(first), variable: first });
  }
}

/** `/team/alpha` for `TEAM__ALPHA`, and the root for an empty rest. */
function userPathOf(suffix: string): string {
  return `/${suffix
    .toLowerCase()
    .split('__')
    .filter((segment) => segment !== '')
    .join('/')}`;
}

function subjectOf(input: unknown, by: string): unknown {
  return by === 'path' && typeof input === 'string' ? `/${input.replace(/^\/|\/$/g, '')}` : input;
}

/** Pairs such as `daily=10,weekly=50`, or a JSON array of the rows that the file would have. */
function limitsIn(value: string, limits: Family['limits']): unknown {
  if (value.startsWith('[')) {
    try {
      return JSON.parse(value);
    } catch {
      return value;
    }
  }
  const pairs = value.split(',').map((pair) => {
    const [name = '', ...rest] = pair.split('=');
    return [name.trim(), rest.join('=').trim()] as const;
  });
  return limits(pairs.filter(([name]) => name !== ''));
}

const RATES = new Map([
  ['rpm', ['minute', 'max_requests']],
  ['tpm', ['minute', 'max_tokens']],
  ['rph', ['hour', 'max_requests']],
  ['tph', ['hour', 'max_tokens']],
  ['rpd', ['day', 'max_requests']],
  ['tpd', ['day', 'max_tokens']],
]);

function rateLimits(pairs: readonly (readonly [string, string])[]): Record<string, string>[] {
  const byPeriod = new Map<string, Record<string, string>>();
  for (const [name, value] of pairs) {
    const [period = name, member = 'max_requests'] = RATES.get(name.toLowerCase()) ?? [];
    byPeriod.set(period, { ...(byPeriod.get(period) ?? { period }), [member]: value });
  }
  return [...byPeriod.values()];
}
