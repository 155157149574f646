/**
 * LiteLLM's database: organizations, teams and users become user paths with policies, budgets and rate limits; its keys are
 * moved by their hashes (`schema.prisma` of BerriAI/litellm).
 */
import { createHash } from 'node:crypto';
import { isObject } from '../../json/is-object.ts';
import {
  type Moved,
  type MovedObject,
  movedKey,
  movedLimit,
  movedPolicy,
  movedRates,
  type Row,
  textsIn,
} from './moved-objects.ts';

const tables = {
  budgets: 'LiteLLM_BudgetTable',
  organizations: 'LiteLLM_OrganizationTable',
  teams: 'LiteLLM_TeamTable',
  members: 'LiteLLM_TeamMembership',
  users: 'LiteLLM_UserTable',
  tags: 'LiteLLM_TagTable',
  customers: 'LiteLLM_EndUserTable',
  models: 'LiteLLM_ProxyModelTable',
  keys: 'LiteLLM_VerificationToken',
} as const;

export type LitellmTables = Readonly<Record<keyof typeof tables, readonly Row[]>>;

/** Reads the tables as they are at one moment. A table that this version of LiteLLM does not have is empty. */
export async function readLitellmTables(databaseUrl: string): Promise<LitellmTables> {
  const { Client } = await import('pg');
  const client = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const read: Record<string, readonly Row[]> = {};
    for (const [name, table] of Object.entries(tables)) {
      const { rows: found } = await client.query('SELECT to_regclass($1) IS NOT NULL AS "exists"', [`"${table}"`]);
      // As JSON, so that the columns of any version can be read; times are in UTC.
      const rows = found[0]?.exists ? (await client.query(`SELECT to_jsonb(t) AS row FROM "${table}" t`)).rows : [];
      read[name] = rows.map(({ row }) => row);
    }
    return read as LitellmTables;
  } finally {
    await client.end();
  }
}

/** Columns with rules that have no equivalent: they are named where they are set. */
const unsupported =
  `aliases config permissions router_settings model_max_budget budget_limits soft_budget allowed_routes
  allowed_cache_controls policies access_group_ids object_permission_id auto_rotate agent_id project_id model_id
  team_member_permissions default_team_member_models allowed_models`.split(/\s+/);

const MAX_PERIOD_SECONDS = 366 * 86_400;

/** @param selectorsOf see `LitellmModels`. @param now milliseconds since the epoch */
export function litellmObjects(
  read: LitellmTables,
  selectorsOf: (names: readonly string[]) => readonly string[],
  now: number,
): Moved {
  const objects: MovedObject[] = [];
  const notTaken: string[] = [];
  const budgets = new Map(read.budgets.map((row) => [row['budget_id'], row]));
  const organizations = pathsOf(read.organizations, 'organization_id', 'organization_alias', () => '/organizations');
  const parentOf = ({ organization_id: of }: Row) => organizations.get(of) ?? '/teams';
  const teams = pathsOf(read.teams, 'team_id', 'team_alias', parentOf);
  const users = pathsOf(read.users, 'user_id', 'user_id', () => '/users');
  const blocked = new Set(read.teams.filter((row) => row['blocked'] === true).map(({ team_id: id }) => id));

  for (const row of read.organizations) moveSubject(organizations.get(row['organization_id']), row);
  for (const row of read.teams) moveSubject(teams.get(row['team_id']), row);
  for (const row of read.users) moveSubject(users.get(row['user_id']), row);
  for (const row of read.members) moveLimits('user_path', memberPath(row['team_id'], row['user_id']), row);
  for (const row of read.tags) moveLimits('label', String(row['tag_name']), row);
  for (const row of read.keys) moveKey(row);
  for (const { model_name: name } of read.models) {
    notTaken.push(`model ${name} of the database: its parameters are encrypted; add its provider and virtual model`);
  }
  const customers = read.customers.filter((row) => row['budget_id'] || row['blocked']).length;
  if (customers > 0)
    notTaken.push(`${customers} customers with a budget or blocked: the user in a request is no user path`);
  const spent = [...read.teams, ...read.users, ...read.keys].filter(({ spend }) => Number(spend) > 0).length;
  if (spent > 0) notTaken.push(`spending so far of ${spent} teams, users and keys: budgets begin at 0 in their period`);
  return { objects, notTaken };

  function moveSubject(path = '', row: Row): void {
    objects.push(...movedPolicy(path, selectorsOf(textsIn(row['models']))));
    moveLimits('user_path', path, row);
    noteUnsupported(path, row);
  }

  /** The limits of the row itself, and those of its budget. */
  function moveLimits(scope: 'user_path' | 'label', subject: string, row: Row): void {
    const limits: Row = { ...budgets.get(row['budget_id']), ...withoutNull(row) };
    const { max_budget: amount, budget_duration: duration } = limits;
    if (typeof amount === 'number') {
      const seconds = secondsOf(duration ?? '366d');
      if (seconds === undefined) notTaken.push(`budget of ${subject}: ${duration} is not a period of at most 366 days`);
      else {
        if (duration === undefined) notTaken.push(`budget of ${subject}: it has no period; it is one of 366 days`);
        // A budget of nothing refuses everything.
        const most = { amount: Math.max(amount, 1e-9) };
        objects.push(movedLimit('budget', { scope, subject, period_seconds: seconds }, most));
      }
    }
    const { rpm_limit: requests, tpm_limit: tokens, max_parallel_requests: concurrent } = limits;
    const rates = movedRates({ scope, subject }, requests, tokens, concurrent);
    if (scope === 'user_path') objects.push(...rates);
    else if (rates.length > 0) notTaken.push(`rate limits of the tag ${subject}: labels have budgets only`);
    if ([requests, tokens, concurrent].includes(0)) notTaken.push(`rate limit 0 of ${subject}: a limit is at least 1`);
  }

  function memberPath(team: unknown, user: unknown): string {
    return `${teams.get(team) ?? `/teams/${segment(team)}`}/${userPath(user).split('/').at(-1)}`;
  }

  function userPath(user: unknown): string {
    return users.get(user) ?? `/users/${segment(user)}`;
  }

  function moveKey(row: Row): void {
    const {
      token,
      key_alias: alias,
      key_name: shown,
      team_id: team,
      user_id: user,
      expires,
      metadata,
    } = withoutNull(row);
    // Keys of the first versions are stored as they are.
    const hash = /^[0-9a-f]{64}$/.test(String(token)) ? String(token) : sha256(String(token));
    const ofTeam = team === undefined ? undefined : (teams.get(team) ?? `/teams/${segment(team)}`);
    const ofUser = user === undefined ? undefined : team === undefined ? userPath(user) : memberPath(team, user);
    const base = ofUser ?? ofTeam ?? organizations.get(row['organization_id']);
    // A limit has a user path.
    const own = `${base ?? ''}/keys/${segment(alias ?? 'key')}-${hash.slice(0, 8)}`;
    const before = objects.length;
    moveLimits('user_path', own, row);
    const { tags, ...others } = isObject(metadata) ? metadata : {};
    const key = movedKey(
      {
        name: String(alias ?? shown ?? `key ${hash.slice(0, 8)}`),
        description: `LiteLLM ${shown ?? ''}`.trim(),
        hash,
        prefix: '',
        userPath: objects.length > before ? own : base,
        allowedModels: selectorsOf(textsIn(row['models'])),
        labels: textsIn(tags),
        // Without a zone, in UTC.
        expiresAt:
          typeof expires === 'string' ? Date.parse(/Z$|:\d\d[+-]/.test(expires) ? expires : `${expires}Z`) : undefined,
        enabled: row['blocked'] !== true && !blocked.has(team),
      },
      now,
    );
    if (typeof key === 'string') {
      objects.splice(before);
      notTaken.push(key);
      return;
    }
    objects.push(key);
    noteUnsupported(`key ${alias ?? shown ?? hash.slice(0, 8)}`, { ...row, metadata: others }, ['metadata']);
  }

  function noteUnsupported(what: string, row: Row, more: readonly string[] = []): void {
    const isSet = (value: unknown) =>
      typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value);
    const names = [...unsupported, ...more].filter((name) => isSet(row[name]));
    if (names.length > 0) notTaken.push(`${what}: no equivalent of ${names.join(', ')}`);
  }
}

/** A path for each row, by its id; its name is the alias, with a part of the hash of the id where names are equal. */
function pathsOf(rows: readonly Row[], id: string, name: string, parentOf: (row: Row) => string) {
  const pathOf = (row: Row) => `${parentOf(row)}/${segment(row[name] || row[id])}`;
  const counts = Map.groupBy(rows, pathOf);
  return new Map(
    rows.map((row) => {
      const path = pathOf(row);
      const isShared = (counts.get(path)?.length ?? 0) > 1;
      return [row[id], isShared ? `${path}-${sha256(String(row[id])).slice(0, 8)}` : path] as const;
    }),
  );
}

/** Letters, digits and a few signs, which user paths may have. */
function segment(name: unknown): string {
  return String(name)
    .trim()
    .replace(/[^\w.@+-]+/g, '-')
    .replace(/^\.*$/, '-')
    .slice(0, 100);
}

/** LiteLLM's periods of a day, of 7 and of 30 days begin with days, Mondays and months ("Budget Reset Times"). */
function secondsOf(duration: unknown): number | undefined {
  const [, number = '', unit = ''] = /^(\d+)(s|m|h|d|w|mo)$/.exec(String(duration)) ?? [];
  const seconds = Number(number) * ({ s: 1, m: 60, h: 3600, d: 86_400, w: 604_800, mo: 2_592_000 }[unit] ?? 0);
  return seconds > 0 && seconds <= MAX_PERIOD_SECONDS ? seconds : undefined;
}

function withoutNull(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null));
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
