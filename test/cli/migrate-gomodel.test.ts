/** `chancery migrate gomodel`, from a SQLite file with the tables of GoModel's `store_sql.go` files. */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrateGomodel } from '../../src/cli/migrate/migrate.ts';
import { providerTypes } from '../../src/providers/types.ts';
import type { Answered } from '../support/answered.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { json, withGateway } from '../support/with-gateway.ts';
import { screen, typed } from './screen.ts';

const gateway = withGateway();
const folder = mkdtempSync(join(tmpdir(), 'chancery-gomodel-'));
const file = join(folder, 'gomodel.db');
afterAll(() => rmSync(folder, { recursive: true }));

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const get = async (path: string): Promise<Answered> => json(await gateway.fetch(path));

beforeAll(() => {
  const db = new DatabaseSync(file);
  db.exec(`
    CREATE TABLE auth_keys (id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL DEFAULT '', user_path TEXT,
      labels JSON, allowed_models JSON, dashboard_access INTEGER NOT NULL DEFAULT 0, redacted_value TEXT NOT NULL,
      secret_hash TEXT NOT NULL UNIQUE, enabled INTEGER NOT NULL DEFAULT 1, expires_at INTEGER, deactivated_at INTEGER,
      created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE TABLE budgets (scope TEXT, subject TEXT, per_child INTEGER, period_seconds INTEGER, amount REAL, source TEXT);
    CREATE TABLE rate_limits (scope TEXT, subject TEXT, per_child INTEGER, period_seconds INTEGER, max_requests INTEGER,
      max_tokens INTEGER, source TEXT);
    CREATE TABLE users (id TEXT, user_path TEXT, name TEXT, description TEXT, allowed_models JSON);
    CREATE TABLE virtual_models (source TEXT PRIMARY KEY, targets TEXT, strategy TEXT, session_affinity TEXT, failover TEXT,
      provider_name TEXT, model TEXT, user_paths TEXT, description TEXT, slowdown REAL, enabled INTEGER);
    CREATE TABLE guardrail_definitions (name TEXT);
    INSERT INTO auth_keys VALUES
      ('1', 'team', 'CI', '/team/a', '["ci"]', '["llamacpp/"]', 1, 'sk_gom_...aaaa', '${sha256('one')}', 1, 7226582400, NULL, 0, 0),
      ('2', 'old', '', NULL, NULL, NULL, 0, 'sk_gom_...bbbb', '${sha256('two')}', 1, 1000, NULL, 0, 0),
      ('3', 'off', '', NULL, NULL, NULL, 0, 'sk_gom_...cccc', '${sha256('three')}', 0, NULL, 5, 0, 0);
    INSERT INTO budgets VALUES ('user_path', '/team', 0, 2592000, 100, 'manual'), ('label', 'ci', 1, 86400, 2.5, 'config');
    INSERT INTO rate_limits VALUES ('user_path', '/team/a', 0, 60, 10, NULL, 'manual'), ('provider', 'llamacpp', 0, 0, 4, NULL, 'manual'),
      ('provider', 'absent', 0, 60, 4, NULL, 'manual');
    INSERT INTO users VALUES ('u', '/team', 'Team', 'the team', '["llamacpp/"]'), ('v', '/free', '', '', NULL);
    INSERT INTO virtual_models VALUES
      ('fast', '[{"provider":"llamacpp","model":"simulated-small","weight":2},{"model":"simulated-large"}]', 'failover', '', 'false', '', '', '["/team"]', 'd', 0.5, 1),
      ('llamacpp/simulated-large', '[]', '', '', '', 'llamacpp', 'simulated-large', '["/team"]', '', NULL, 1);
    INSERT INTO guardrail_definitions VALUES ('g');
  `);
  db.close();
});

async function migrate(on: string[] = [], sqlite = file) {
  const shown = screen();
  const parts = { cwd: folder, env: {}, providerTypes: async () => providerTypes, masterKey: async () => MASTER_KEY };
  const code = await migrateGomodel(
    typed({ values: { sqlite, gateway: gateway.url, key: MASTER_KEY }, on }),
    parts,
    shown,
  );
  return { code, lines: shown.lines(), err: shown.err() };
}

describe('chancery migrate gomodel', () => {
  it('moves virtual models, user paths, limits and keys; a repetition changes nothing', async () => {
    const dry = await migrate(['dryRun']);
    const run = await migrate();
    expect(dry.lines.slice(0, -1)).toEqual(run.lines.slice(0, -1));
    expect(run.lines).toEqual([
      expect.stringMatching(/^new {8}virtual model fast: /),
      expect.stringMatching(/^new {8}virtual model llamacpp\/simulated-large: /),
      'new        user path /team: allowed_models ["llamacpp/"]',
      'new        budget user_path /team 2592000: amount 100',
      'new        budget label ci 86400: amount 2.5',
      'new        rate limit user_path /team/a 60: max_requests 10',
      'new        rate limit provider llamacpp 0: max_requests 4',
      expect.stringMatching(
        /^waits {6}rate limit provider absent 60: the gateway has no provider absent: add it, repeat/,
      ),
      expect.stringMatching(/^new {8}key team: user_path "\/team\/a"/),
      'kept       key off: it is blocked, and is not created',
      'not taken  virtual model fast: no equivalent of slowdown',
      'not taken  limit of ci: per_child has no equivalent; it is for the whole path',
      'not taken  key old: it expired at 1970-01-01T00:16:40.000Z',
      'not taken  guardrail_definitions: 1 to be set up again',
      '',
      '8 new, 0 changed, 0 same, 1 kept, 1 waits, 0 refused; 4 lines not taken',
    ]);
    expect(run.code).toBe(0);
    expect((await migrate()).lines.at(-1)).toMatch(/^0 new, 0 changed, 8 same, 1 kept, 1 waits, 0 refused/);
    expect(run.lines.join()).not.toContain(sha256('one'));
  });

  it('lets clients keep their keys', async () => {
    const asked = (token: string) =>
      fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${token}` } });
    expect((await asked('sk_gom_one')).status).toBe(200);
    for (const token of ['one', 'sk_gom_two', 'sk_gom_three']) expect((await asked(token)).status).toBe(401);
    const [key] = await get('/admin/auth-keys');
    expect(key).toMatchObject({
      name: 'team',
      description: 'CI',
      user_path: '/team/a',
      labels: ['ci'],
      allowed_models: ['llamacpp/'],
      dashboard_access: true,
      expires_at: '2199-01-01T00:00:00.000Z',
    });
    expect((await get('/admin/virtual-models')).find(({ source }: Answered) => source === 'fast')).toMatchObject({
      strategy: 'failover',
      failover: false,
      user_paths: ['/team'],
      description: 'd',
    });
  });

  it('states what is wrong with another file', async () => {
    const other = join(folder, 'other.db');
    new DatabaseSync(other).close();
    writeFileSync(join(folder, 'text.db'), 'no database '.repeat(100));
    await expect(migrate([], other)).rejects.toThrow(/--sqlite: .*other.db cannot be read: it has no table auth_keys/);
    await expect(migrate([], join(folder, 'text.db'))).rejects.toThrow(/file is not a database/);
    await expect(migrate([], join(folder, 'missing.db'))).rejects.toThrow(/unable to open/);
  });
});
