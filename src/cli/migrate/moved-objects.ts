/** What a migration brings to a gateway, in the words of its admin API; compares it with what is there, and applies it. */
import { importedHash, importedKeyId } from '../../commands/access/key-directory.ts';
import { isObject } from '../../json/is-object.ts';
import type { AdminApi } from '../admin-api.ts';

export interface MovedObject {
  readonly kind: Kind;
  /** Names it among the rows of its kind. */
  readonly id: string;
  /** Members of its row: they are compared with what the gateway has. Of an undefined member, its absence is compared. */
  readonly members: Row;
  /** Further members of the request that creates it. */
  readonly more?: Row;
  /** Providers that it names: without them the gateway would refuse it. */
  readonly providers?: readonly string[];
}

export type Row = Readonly<Record<string, unknown>>;

/** What another gateway has, as far as this one has an equivalent. */
export interface Moved {
  readonly objects: readonly MovedObject[];
  /** Lines: what has no equivalent, and why. Never a secret. */
  readonly notTaken: readonly string[];
}

interface KindFacts {
  readonly path: string;
  /** The member of the list's answer that has the rows. */
  readonly rows?: string;
  readonly method: 'PUT' | 'POST';
  idOf(row: Row): unknown;
  /** Routes below the object for single members; absent: the whole object is sent again. */
  readonly parts?: Readonly<Record<string, string>>;
  /** Members in which an existing object is another one, and stays as it is. */
  readonly identity?: readonly string[];
}

const limitId = ({ scope, subject, period_seconds }: Row) => `${scope} ${subject} ${period_seconds}`;

/** In the order in which they are brought. */
const kinds = {
  // Its secrets cannot be compared: they are sent again when another member differs.
  provider: {
    path: '/admin/provider-credentials',
    method: 'PUT',
    idOf: ({ name }) => name,
    identity: ['type', 'base_url'],
  },
  'virtual model': { path: '/admin/virtual-models', method: 'PUT', idOf: ({ source }) => source },
  'user path': {
    path: '/admin/users',
    rows: 'users',
    method: 'PUT',
    idOf: ({ user_path, configured }) => (configured === true ? user_path : undefined),
  },
  budget: { path: '/admin/budgets', rows: 'budgets', method: 'PUT', idOf: limitId },
  'rate limit': { path: '/admin/rate-limits', rows: 'rate_limits', method: 'PUT', idOf: limitId },
  key: {
    path: '/admin/auth-keys',
    method: 'POST',
    idOf: ({ id }) => id,
    parts: {
      allowed_models: 'allowed-models',
      labels: 'labels',
      expires_at: 'expiry',
      dashboard_access: 'dashboard-access',
    },
  },
} as const satisfies Record<string, KindFacts>;

export type Kind = keyof typeof kinds;

export const kindNames = Object.keys(kinds) as readonly Kind[];

/** The limit of a user path, a label or a model. */
export function movedLimit(
  kind: 'budget' | 'rate limit',
  of: { readonly scope: string; readonly subject: string; readonly period_seconds: number },
  members: Row,
): MovedObject {
  const { scope, subject, period_seconds } = of;
  const period = kind === 'budget' ? 'budget_key' : 'limit_key';
  return { kind, id: limitId(of), members, more: { scope, subject, [period]: { period_seconds } } };
}

/** The policy of a user path; none without selectors, which would restrict nothing. */
export function movedPolicy(path: string, allowed: readonly string[], description?: string): MovedObject[] {
  const more = { user_path: path, ...(description && { description }) };
  const members = { allowed_models: allowed };
  return allowed.length === 0 ? [] : [{ kind: 'user path', id: path, members, more, providers: providersIn(allowed) }];
}

interface KeyFacts {
  readonly name: string;
  readonly description: string;
  /** SHA-256 of what follows the prefix. */
  readonly hash: string;
  readonly prefix: string;
  readonly userPath: string | undefined;
  readonly allowedModels: readonly string[];
  readonly labels: readonly string[];
  readonly dashboardAccess?: boolean;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number | undefined;
  readonly enabled: boolean;
}

/** @returns why it is not moved, for a key that has expired */
export function movedKey({ prefix, expiresAt, ...key }: KeyFacts, now: number): MovedObject | string {
  const name =
    key.name
      .replace(/\p{Cc}/gu, ' ')
      .trim()
      .slice(0, 200) || 'moved key';
  const expiry = expiresAt === undefined ? undefined : new Date(expiresAt).toISOString();
  if (expiresAt !== undefined && expiresAt <= now) return `key ${name}: it expired at ${expiry}`;
  return {
    kind: 'key',
    id: importedKeyId(importedHash(prefix, key.hash)),
    members: {
      user_path: key.userPath,
      allowed_models: key.allowedModels,
      labels: [...new Set(key.labels.map((label) => label.trim()).filter((label) => label !== ''))],
      expires_at: expiry,
      ...(key.dashboardAccess !== undefined && { dashboard_access: key.dashboardAccess }),
      // A blocked key is deactivated. One that was deactivated here is not reactivated.
      ...(key.enabled ? {} : { enabled: false }),
    },
    more: {
      name,
      ...(key.description && { description: key.description }),
      secret_sha256: key.hash,
      ...(prefix && { secret_prefix: prefix }),
    },
    providers: providersIn(key.allowedModels),
  };
}

/** The textsIn of a list. */
export function textsIn(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((one) => typeof one === 'string') : [];
}

/** The providers that selectors name. */
export function providersIn(selectors: readonly string[]): readonly string[] {
  return selectors.flatMap((selector) => (selector.indexOf('/') > 0 ? [selector.slice(0, selector.indexOf('/'))] : []));
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}

/** Limits of a minute and of concurrent requests; what is no count is not limited. */
export function movedRates(
  of: { readonly scope: string; readonly subject: string },
  requests: unknown,
  tokens: unknown,
  concurrent: unknown,
  providers: readonly string[] = [],
): MovedObject[] {
  const counted = (value: unknown) => (isCount(value) ? value : undefined);
  return [
    { period_seconds: 60, max_requests: counted(requests), max_tokens: counted(tokens) },
    { period_seconds: 0, max_requests: counted(concurrent), max_tokens: undefined },
  ].flatMap(({ period_seconds, ...most }) =>
    most.max_requests === undefined && most.max_tokens === undefined
      ? []
      : [{ ...movedLimit('rate limit', { ...of, period_seconds }, most), providers }],
  );
}

/** What happened to an object, or with `dryRun` would happen. */
type Outcome = 'new' | 'changed' | 'same' | 'waits' | 'refused' | 'kept';

export interface Step {
  readonly outcome: Outcome;
  readonly line: string;
}

/**
 * Brings the objects one after the other. Repeated, it continues, and changes nothing of what is as it should be.
 * @param api undefined: nothing is known of a gateway, and nothing is sent
 * @param declared providers that wait in a file for the next start of the gateway
 */
export async function* bring(
  objects: readonly MovedObject[],
  api: AdminApi | undefined,
  { dryRun, declared }: { readonly dryRun: boolean; readonly declared: ReadonlySet<string> },
): AsyncGenerator<Step> {
  const providers = new Set<unknown>();
  /** User paths without a policy or a limit that they should have: keys there would be free of it. */
  const unready: string[] = [];
  for (const kind of kindNames) {
    const wanted = objects.filter((one) => one.kind === kind);
    if (wanted.length === 0 && kind !== 'provider') continue;
    const rows = await rowsOf(kind, api);
    if (typeof rows === 'string') {
      for (const one of wanted) yield { outcome: 'refused', line: `${nameOf(one)}: ${rows}` };
      unready.push(...wanted.flatMap(pathOf));
      continue;
    }
    if (kind === 'provider') for (const name of rows.keys()) providers.add(name);
    for (const one of wanted) {
      const why = api === undefined ? undefined : whyWaits(one);
      const step: Step =
        why === undefined
          ? await bringOne(one, rows.get(one.id), dryRun ? undefined : api)
          : { outcome: 'waits', line: `${nameOf(one)}: ${why}` };
      const failed = step.outcome === 'waits' || step.outcome === 'refused';
      if (failed) unready.push(...pathOf(one));
      else if (kind === 'provider') providers.add(one.id);
      yield step;
    }
  }

  function whyWaits({ providers: named, members }: MovedObject): string | undefined {
    const missing = named?.find((name) => !providers.has(name));
    if (missing !== undefined) {
      const written = 'put the written providers into chancery.yaml, restart, repeat';
      return `the gateway has no provider ${missing}: ${declared.has(missing) ? written : 'add it, repeat'}`;
    }
    const path = members['user_path'];
    const held = typeof path === 'string' ? unready.find((one) => `${path}/`.startsWith(`${one}/`)) : undefined;
    return held === undefined ? undefined : `${held} has not its policy and its limits`;
  }
}

/** How errors and output name the object: a key by its name, since its id is made by the gateway. */
function nameOf({ kind, id, more }: MovedObject): string {
  return `${kind} ${more?.['name'] ?? id}`;
}

/** The user path that a policy or a limit is for. */
function pathOf({ kind, more }: MovedObject): readonly string[] {
  if (kind === 'user path') return [String(more?.['user_path'])];
  return more?.['scope'] === 'user_path' ? [String(more['subject'])] : [];
}

async function rowsOf(kind: Kind, api: AdminApi | undefined): Promise<ReadonlyMap<unknown, Row> | string> {
  if (api === undefined) return new Map();
  const { path, rows, idOf }: KindFacts = kinds[kind];
  const answer = await api('GET', path);
  if ('problem' in answer) return answer.problem;
  const list = rows !== undefined && isObject(answer.json) ? answer.json[rows] : answer.json;
  return new Map((Array.isArray(list) ? list.filter(isObject) : []).map((row) => [idOf(row), row]));
}

async function bringOne(one: MovedObject, row: Row | undefined, api: AdminApi | undefined): Promise<Step> {
  const { kind, id, members, more } = one;
  const { path, method, parts, identity = [] }: KindFacts = kinds[kind];
  const name = nameOf(one);
  if (row === undefined) {
    if (kind === 'key' && 'enabled' in members)
      return { outcome: 'kept', line: `${name}: it is blocked, and is not created` };
    const answer = await api?.(method, path, { ...members, ...more });
    if (answer !== undefined && 'problem' in answer) return { outcome: 'refused', line: `${name}: ${answer.problem}` };
    return { outcome: 'new', line: `${name}${shown(members)}` };
  }
  const changed = Object.keys(members).filter((member) => textOf(members[member]) !== textOf(row[member]));
  if (changed.length === 0) return { outcome: 'same', line: name };
  const difference = changed
    .map((member) => `${member} ${textOf(row[member])} → ${textOf(members[member])}`)
    .join(', ');
  const line = `${name}: ${difference}`;
  if (row['managed'] === true || identity.some((member) => changed.includes(member))) {
    return { outcome: 'kept', line: `${line}: it stays as it is` };
  }
  const requests = parts === undefined ? [[method, path, { ...members, ...more }] as const] : changed.map(partOf);
  for (const [method, path, body] of requests) {
    if (path === undefined) return { outcome: 'kept', line: `${line}: it cannot be changed` };
    const answer = await api?.(method, path, body);
    if (answer !== undefined && 'problem' in answer) return { outcome: 'refused', line: `${line}: ${answer.problem}` };
  }
  return { outcome: 'changed', line };

  function partOf(member: string) {
    if (member === 'enabled') return ['POST', `${path}/${id}/deactivate`, undefined] as const;
    const part = parts?.[member];
    return ['PUT', part && `${path}/${id}/${part}`, { [member]: members[member] ?? null }] as const;
  }
}

function textOf(value: unknown): string {
  return value === undefined ? 'none' : JSON.stringify(value);
}

function shown(members: Row): string {
  const set = Object.entries(members).filter(([, value]) => value !== undefined && value !== '');
  return set.length === 0 ? '' : `: ${set.map(([member, value]) => `${member} ${textOf(value)}`).join(', ')}`;
}
