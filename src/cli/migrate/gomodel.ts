/**
 * GoModel's SQLite file (the `store_sql.go` files of ENTERPILOT/GoModel). User paths, selectors and virtual models have the
 * form that they have here; keys are hashed without their prefix.
 */
import { DatabaseSync } from 'node:sqlite';
import { isObject } from '../../json/is-object.ts';
import {
  type Moved,
  type MovedObject,
  movedKey,
  movedLimit,
  movedPolicy,
  providersIn,
  type Row,
  textsIn,
} from './moved-objects.ts';

/** Tables with settings that have no equivalent, have another form or hold secrets. */
const others = [
  ...['provider_credentials', 'guardrail_definitions', 'workflow_versions', 'mcp_servers', 'user_groups'],
  ...['aliases', 'model_overrides'],
];

/** @param now milliseconds since the epoch. @throws Error for a file that is no such database */
export function gomodelObjects(file: string, now: number): Moved {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return objectsIn(db, now);
  } finally {
    db.close();
  }
}

function objectsIn(db: DatabaseSync, now: number): Moved {
  const objects: MovedObject[] = [];
  const notTaken: string[] = [];
  const named = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const tables = new Set(named.map(({ name }) => name));
  /** With all columns: older versions have fewer. */
  const rows = (table: string): readonly Row[] => (tables.has(table) ? db.prepare(`SELECT * FROM ${table}`).all() : []);
  if (!tables.has('auth_keys')) throw new Error('it has no table auth_keys');

  for (const row of rows('virtual_models')) moveVirtualModel(row);
  for (const row of rows('budgets')) objects.push(movedLimit('budget', subjectOf(row), { amount: row['amount'] }));
  for (const row of rows('rate_limits')) {
    const most = { max_requests: row['max_requests'] ?? undefined, max_tokens: row['max_tokens'] ?? undefined };
    const of = subjectOf(row);
    const providers = of.scope === 'provider' ? [of.subject] : of.scope === 'model' ? providersIn([of.subject]) : [];
    objects.push({ ...movedLimit('rate limit', of, most), providers });
  }
  for (const { user_path: path, allowed_models: models, description } of rows('users')) {
    objects.push(...movedPolicy(String(path), textsIn(inJson(models)), String(description ?? '')));
  }
  for (const row of rows('auth_keys')) moveKey(row);
  for (const table of others) {
    const found = rows(table).length;
    if (found > 0) notTaken.push(`${table}: ${found} to be set up again`);
  }
  return { objects, notTaken };

  function moveVirtualModel(row: Row): void {
    const { source, strategy, session_affinity: affinity, provider_name: provider, model, description } = row;
    const given = inJson(row['targets']);
    const targets = (Array.isArray(given) ? given.filter(isObject) : []).map((target) => ({
      ...(target['provider'] ? { provider: String(target['provider']) } : {}),
      model: target['model'],
      ...(target['weight'] ? { weight: target['weight'] } : {}),
    }));
    const isPolicy = targets.length === 0;
    const name = String(isPolicy ? (provider ? `${provider}/${model ?? ''}` : model || source) : source);
    const chosen = { targets, strategy: strategy || 'round_robin', session_affinity: affinity !== 'false' };
    objects.push({
      kind: 'virtual model',
      id: name,
      members: {
        ...(isPolicy ? {} : chosen),
        user_paths: textsIn(inJson(row['user_paths'])),
        enabled: Boolean(row['enabled']),
      },
      more: {
        source: name,
        ...(description ? { description } : {}),
        ...(!isPolicy && row['failover'] === 'false' ? { failover: false } : {}),
      },
      providers: isPolicy ? providersIn([name]) : targets.flatMap(({ provider }) => provider ?? []),
    });
    if (row['slowdown']) notTaken.push(`virtual model ${name}: no equivalent of slowdown`);
  }

  function subjectOf({ scope = 'user_path', subject, user_path: path, period_seconds: period, ...row }: Row) {
    const name = String(subject ?? path);
    if (row['per_child']) notTaken.push(`limit of ${name}: per_child has no equivalent; it is for the whole path`);
    return { scope: String(scope), subject: name, period_seconds: Number(period) };
  }

  function moveKey(row: Row): void {
    const { expires_at: seconds } = row;
    const facts = {
      name: String(row['name']),
      description: String(row['description'] ?? ''),
      hash: String(row['secret_hash']),
      prefix: 'sk_gom_',
      userPath: row['user_path'] ? String(row['user_path']) : undefined,
      allowedModels: textsIn(inJson(row['allowed_models'])),
      labels: textsIn(inJson(row['labels'])),
      dashboardAccess: Boolean(row['dashboard_access']),
      expiresAt: typeof seconds === 'number' ? seconds * 1000 : undefined,
      enabled: Boolean(row['enabled']) && row['deactivated_at'] === null,
    };
    const key = movedKey(facts, now);
    if (typeof key === 'string') notTaken.push(key);
    else objects.push(key);
  }
}

function inJson(text: unknown): unknown {
  return typeof text === 'string' && text !== '' ? JSON.parse(text) : undefined;
}
