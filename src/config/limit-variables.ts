/** Budgets and rate limits in environment variables: `SET_BUDGET_TEAM__ALPHA="daily=10,weekly=50"`. */
import { isMapping, type RawSettings, type Source } from './raw-settings.ts';
import type { Environment } from './sources.ts';

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
    const replaced = new Set(rows.map((row) => row[by]));
    const input = raw.get([...path]);
    const kept = (Array.isArray(input) ? input : []).filter(
      (row) => !isMapping(row) || !replaced.has(subjectOf(row[by], by)),
    );
    raw.set([...path], [...kept, ...rows], { source: sourceOf(first), variable: first });
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
