/** Providers in environment variables: `<TYPE>_BASE_URL`, `<TYPE>_<NAME>_API_KEY`, and so on. */
import type { ProviderTypes } from './schema.ts';

export interface ProviderVariables {
  readonly name: string;
  readonly type: string;
  readonly baseUrl?: Variable;
  /** In the order of their rotation: `_API_KEY`, `_API_KEY_2`, `_API_KEY_3`, … */
  readonly apiKeys: readonly Variable[];
  readonly models?: Variable;
  /** Timeouts, and the type's further options, by their name in chancery.yaml. */
  readonly options: Readonly<Record<string, Variable>>;
}

export interface Variable {
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

/** Only timeouts are set, which does not declare a provider. */
export function hasOnlyTimeouts({ baseUrl, apiKeys, models, options }: ProviderVariables): boolean {
  if (baseUrl !== undefined || models !== undefined || apiKeys.length > 0) return false;
  return Object.keys(options).every((option) => timeoutOptions.includes(option));
}

export const timeoutOptions = ['timeout', 'stream_idle_timeout'];

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
  // The longest prefix first: BEDROCK_MANTLE_BASE_URL is of type bedrock-mantle, not an instance of bedrock.
  const prefixes = Object.keys(types)
    .map((type) => ({ type, prefix: `${variablePrefix(type)}_` }))
    .sort((a, b) => b.prefix.length - a.prefix.length);

  for (const [variable, value] of Object.entries(env)) {
    if (value === undefined || value.trim() === '') continue;
    const owner = prefixes.find(({ prefix }) => variable.startsWith(prefix));
    if (owner === undefined) continue;
    const { type, prefix } = owner;
    const found = splitVariable(variable.slice(prefix.length), Object.keys(types[type]?.extra ?? {}));
    if (found === undefined) continue;
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

/** Splits what follows the type: `GPU_API_KEY_2` into `GPU` and `API_KEY_2`. Undefined for other variables. */
function splitVariable(rest: string, extras: readonly string[]): { suffix?: string; field: string } | undefined {
  const fields = ['BASE_URL', 'API_KEY(?:_[0-9]+)?', 'MODELS', 'STREAM_IDLE_TIMEOUT', 'TIMEOUT', ...extras];
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
