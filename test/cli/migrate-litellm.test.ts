/** `chancery migrate litellm`, from a config.yaml and a PostgreSQL with the tables of LiteLLM's schema.prisma. */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { UsageError } from '../../src/cli/command.ts';
import { migrateLitellm } from '../../src/cli/migrate/migrate.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { expandVariables } from '../../src/config/sources.ts';
import { providerTypes } from '../../src/providers/types.ts';
import type { Answered } from '../support/answered.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { json, user, withGateway } from '../support/with-gateway.ts';
import { screen, typed } from './screen.ts';

const gateway = withGateway({ env: { ALLOW_PRIVATE_PROVIDERS: 'true' } });
const folder = mkdtempSync(join(tmpdir(), 'chancery-migrate-'));
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

let db: PGlite;
let server: PGLiteSocketServer;
let databaseUrl = '';
/** Base URL of the simulated provider. */
let simulated = '';
beforeAll(async () => {
  simulated = (await json(await gateway.fetch('/admin/provider-credentials/llamacpp'))).base_url;
  db = await PGlite.create();
  server = new PGLiteSocketServer({ db, port: 0, host: '127.0.0.1', maxConnections: 4 });
  await server.start();
  databaseUrl = `postgres://postgres:db-password@${server.getServerConn()}/postgres`;
  await db.exec(`
    CREATE TABLE "LiteLLM_BudgetTable" (budget_id text PRIMARY KEY, max_budget double precision, soft_budget double precision,
      max_parallel_requests int, tpm_limit bigint, rpm_limit bigint, model_max_budget jsonb, budget_duration text);
    CREATE TABLE "LiteLLM_OrganizationTable" (organization_id text PRIMARY KEY, organization_alias text, budget_id text, models text[]);
    CREATE TABLE "LiteLLM_TeamTable" (team_id text PRIMARY KEY, team_alias text, organization_id text, metadata jsonb DEFAULT '{}',
      max_budget double precision, spend double precision DEFAULT 0, models text[] DEFAULT '{}', max_parallel_requests int,
      tpm_limit bigint, rpm_limit bigint, budget_duration text, blocked boolean DEFAULT false, policies text[] DEFAULT '{}');
    CREATE TABLE "LiteLLM_TeamMembership" (user_id text, team_id text, spend double precision DEFAULT 0, budget_id text);
    CREATE TABLE "LiteLLM_UserTable" (user_id text PRIMARY KEY, models text[] DEFAULT '{}', max_budget double precision,
      spend double precision DEFAULT 0, budget_duration text, tpm_limit bigint, rpm_limit bigint);
    CREATE TABLE "LiteLLM_TagTable" (tag_name text PRIMARY KEY, budget_id text);
    CREATE TABLE "LiteLLM_ProxyModelTable" (model_id text PRIMARY KEY, model_name text, litellm_params jsonb);
    CREATE TABLE "LiteLLM_VerificationToken" (token text PRIMARY KEY, key_name text, key_alias text, spend double precision DEFAULT 0,
      expires timestamp(3), models text[] DEFAULT '{}', user_id text, team_id text, max_parallel_requests int,
      metadata jsonb DEFAULT '{}', blocked boolean, tpm_limit bigint, rpm_limit bigint, max_budget double precision,
      budget_duration text, allowed_routes text[] DEFAULT '{}', budget_id text, organization_id text);
    INSERT INTO "LiteLLM_BudgetTable" VALUES ('b-org', 500, null, null, null, null, null, '30d'), ('b-member', 2.5, null, null, null, 7, null, '1d'),
      ('b-tag', 9, null, null, null, null, null, '1h');
    INSERT INTO "LiteLLM_OrganizationTable" VALUES ('o-1', 'Acme', 'b-org', '{}');
    INSERT INTO "LiteLLM_TeamTable" (team_id, team_alias, organization_id, max_budget, budget_duration, models, tpm_limit, rpm_limit, spend, blocked, policies) VALUES
      ('t-1', 'Alpha Team', 'o-1', 100, '7d', '{fast}', 9000000000, 600, 12.5, false, '{}'),
      ('t-2', 'Twins', null, null, null, '{}', null, null, 0, false, '{p}'), ('t-3', 'Twins', null, 3, null, '{}', null, null, 0, false, '{}'),
      ('t-4', 'Blocked', null, null, null, '{}', null, null, 0, true, '{}');
    INSERT INTO "LiteLLM_TeamMembership" VALUES ('ann', 't-1', 0, 'b-member');
    INSERT INTO "LiteLLM_UserTable" (user_id, models, max_budget, budget_duration) VALUES ('ann', '{}', 20, '1mo'), ('bob', '{no-default-models}', null, null);
    INSERT INTO "LiteLLM_TagTable" VALUES ('batch', 'b-tag');
    INSERT INTO "LiteLLM_ProxyModelTable" VALUES ('m-1', 'from-ui', '{"model":"encrypted"}');
    INSERT INTO "LiteLLM_VerificationToken" (token, key_name, key_alias, team_id, user_id, models, expires, metadata, allowed_routes) VALUES
      ('${sha256('sk-team')}', 'sk-...team', 'team key', 't-1', 'ann', '{all-team-models}', '2199-01-01 00:00:00', '{"tags":["batch"],"note":"x"}', '{/v1/embeddings}'),
      ('${sha256('sk-expired')}', null, 'old key', 't-1', null, '{}', '2020-01-01 00:00:00', '{}', '{}'),
      ('${sha256('sk-in-blocked')}', null, 'in a blocked team', 't-4', null, '{}', null, '{}', '{}');
    INSERT INTO "LiteLLM_VerificationToken" (token, key_alias, user_id, max_budget, budget_duration, rpm_limit, max_parallel_requests, models) VALUES
      ('${sha256('sk-own')}', 'own limits', 'bob', 1, '2d', 10, 3, '{fast,gone}'), ('sk-plain', null, null, null, null, null, null, '{}');
  `);
});
afterAll(async () => {
  await server.stop();
  await db.close();
  rmSync(folder, { recursive: true });
});

/** With two providers of this gateway's simulated one: at its address, and with a key. */
const models = () => ({
  model_list: [
    {
      model_name: 'fast',
      litellm_params: { model: 'hosted_vllm/simulated-small', api_base: simulated, rpm: 100, weight: 3 },
    },
    {
      model_name: 'fast',
      litellm_params: {
        model: 'openai/simulated-small',
        api_base: simulated,
        api_key: 'os.environ/OTHER_KEY',
        tpm: 50,
      },
      model_info: { access_groups: ['everyone'] },
    },
    {
      model_name: 'slow',
      litellm_params: { model: 'hosted_vllm/simulated-large', api_base: simulated, temperature: 0 },
    },
    { model_name: 'cloud', litellm_params: { model: 'bedrock/claude', aws_secret_access_key: 'aws-secret' } },
    { model_name: 'hosted_vllm/*', litellm_params: { model: 'hosted_vllm/*', api_base: 'http://other.example' } },
  ],
  litellm_settings: { fallbacks: [{ fast: ['slow'] }, { slow: ['fast', 'cloud'] }], num_retries: 2 },
  router_settings: {
    routing_strategy: 'latency-based-routing',
    model_group_alias: { gpt: 'fast' },
    redis_password: 'redis-secret',
  },
  general_settings: { master_key: 'sk-master-secret', database_url: 'postgres://x:pg-secret@y/z' },
});

const parts = (env: Record<string, string> = {}) => ({
  cwd: folder,
  env,
  providerTypes: async () => providerTypes,
  masterKey: async () => MASTER_KEY,
});

interface Run {
  readonly values?: Record<string, string>;
  readonly env?: Record<string, string>;
  readonly on?: readonly string[];
  readonly config?: object;
}

async function migrate({ values = {}, env = { OTHER_KEY: 'other-secret' }, on = [], config = models() }: Run = {}) {
  writeFileSync(join(folder, 'config.yaml'), stringify(config));
  const shown = screen();
  const given = { config: 'config.yaml', gateway: gateway.url, key: MASTER_KEY, ...values };
  const code = await migrateLitellm(typed({ values: given, on }), parts(env), shown);
  const lines = shown.lines();
  return { code, lines, text: `${shown.out()}${shown.err()}`, of: (outcome: string) => partsOf(lines, outcome) };
}

function partsOf(lines: readonly string[], outcome: string): string[] {
  return lines.filter((line) => line.startsWith(outcome.padEnd(11))).map((line) => line.slice(11));
}

const get = async (path: string): Promise<Answered> => json(await gateway.fetch(path));
/** Position of the newest change by an administrator. */
const lastChange = async () => (await get('/admin/history?limit=1')).entries[0]?.position;
const chat = async (token: string, model: string) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: user('hi'), max_tokens: 3 }),
  });

const secrets = [
  'aws-secret',
  'redis-secret',
  'sk-master-secret',
  'pg-secret',
  'db-password',
  'other-secret',
  'sk-plain',
];

describe('chancery migrate litellm', () => {
  it('changes nothing with --dry-run, and prints what the run prints', async () => {
    const before = await lastChange();
    const dry = await migrate({ values: { databaseUrl }, on: ['dryRun'] });
    expect(await lastChange()).toBe(before);
    const run = await migrate({ values: { databaseUrl } });
    expect(run.of('refused')).toEqual([]);
    expect(run.code).toBe(0);
    expect(dry.lines.slice(0, -1)).toEqual(run.lines.slice(0, -1));
    expect(dry.lines.at(-1)).toBe(`${run.lines.at(-1)}; nothing was changed, nor sent for the gateway to check`);
    for (const secret of secrets) expect(run.text).not.toContain(secret);
    for (const hash of ['sk-team', 'sk-own', 'sk-plain'].map(sha256)) expect(run.text).not.toContain(hash);
  });

  it('changes nothing when it is repeated', async () => {
    const before = await lastChange();
    const again = await migrate({ values: { databaseUrl } });
    expect(await lastChange()).toBe(before);
    expect(again.lines.at(-1)).toMatch(/^0 new, 0 changed, \d+ same, 1 kept, 0 waits, 0 refused;/);
  });

  it('moves the deployments as providers, and the groups with their fallbacks as virtual models', async () => {
    const providers = await get('/admin/provider-credentials');
    expect(providers).toContainEqual(
      expect.objectContaining({
        name: 'vllm',
        type: 'vllm',
        base_url: simulated,
        models: ['simulated-large', 'simulated-small'],
      }),
    );
    expect(providers).toContainEqual(
      expect.objectContaining({ name: 'openai', type: 'openai', models: ['simulated-small'] }),
    );
    const all: Answered[] = await get('/admin/virtual-models');
    const of = (name: string) => all.find(({ source }) => source === name);
    expect(of('fast-deployments')).toMatchObject({
      strategy: 'adaptive',
      targets: [
        { provider: 'vllm', model: 'simulated-small', weight: 3 },
        { provider: 'openai', model: 'simulated-small', weight: 50 },
      ],
    });
    expect(of('fast')).toMatchObject({
      strategy: 'failover',
      targets: [{ model: 'fast-deployments' }, { provider: 'vllm', model: 'simulated-large' }],
    });
    expect(of('slow')?.targets).toEqual([
      { provider: 'vllm', model: 'simulated-large' },
      { model: 'fast-deployments' },
    ]);
    expect(of('gpt')?.targets).toEqual([{ model: 'fast' }]);
    for (const model of ['fast', 'slow', 'gpt']) expect((await chat('sk-plain', model)).status).toBe(200);
  });

  it('moves organizations, teams, members and users as user paths with their budgets and limits', async () => {
    const { budgets } = await get('/admin/budgets');
    const amounts = budgets.map((one: Answered) => [one.subject, one.period_label, one.amount]);
    expect(amounts.toSorted()).toEqual(
      [
        ['/organizations/Acme', 'monthly', 500],
        ['/organizations/Acme/Alpha-Team', 'weekly', 100],
        ['/organizations/Acme/Alpha-Team/ann', 'daily', 2.5],
        [`/teams/Twins-${sha256('t-3').slice(0, 8)}`, '31622400s', 3],
        ['/users/ann', 'monthly', 20],
        [`/users/bob/keys/own-limits-${sha256('sk-own').slice(0, 8)}`, '172800s', 1],
        ['batch', 'hourly', 9],
      ].toSorted(),
    );
    const { rate_limits: limits } = await get('/admin/rate-limits');
    const most = limits.map((one: Answered) => [one.subject, one.period_label, one.max_requests, one.max_tokens]);
    expect(most).toContainEqual(['/organizations/Acme/Alpha-Team', 'minute', 600, 9_000_000_000]);
    expect(most).toContainEqual(['/organizations/Acme/Alpha-Team/ann', 'minute', 7, undefined]);
    expect(most).toContainEqual(['vllm/simulated-small', 'minute', 100, undefined]);
    expect(most).toContainEqual(['openai/simulated-small', 'minute', undefined, 50]);
    const { users } = await get('/admin/users');
    const allowed = Object.fromEntries(users.map((one: Answered) => [one.user_path, one.allowed_models]));
    expect(allowed['/organizations/Acme/Alpha-Team']).toEqual(['openai/simulated-small', 'vllm/simulated-small']);
    expect(allowed['/users/bob']).toEqual(['no-default-models']);
  });

  it('moves keys by their hashes, with their path, models, labels and expiry', async () => {
    const keys: Answered[] = await get('/admin/auth-keys');
    const of = (name: string) => keys.find((key) => key.name === name);
    expect(of('team key')).toMatchObject({
      user_path: '/organizations/Acme/Alpha-Team/ann',
      allowed_models: [],
      labels: ['batch'],
      expires_at: '2199-01-01T00:00:00.000Z',
      description: 'LiteLLM sk-...team',
    });
    expect(of('own limits')).toMatchObject({
      allowed_models: ['gone', 'openai/simulated-small', 'vllm/simulated-small'],
    });
    expect((await chat('sk-team', 'fast')).status).toBe(200);
    // Neither the path of the team, nor that of the user, allows them.
    for (const [token, model] of [
      ['sk-team', 'vllm/simulated-large'],
      ['sk-own', 'fast'],
    ] as const) {
      expect((await chat(token, model)).status).toBe(400);
    }
    for (const token of ['sk-expired', 'sk-in-blocked', sha256('sk-team')])
      expect((await chat(token, 'fast')).status).toBe(401);
  });

  it('names what it does not move, with the reason', async () => {
    const { lines, of } = await migrate({ values: { databaseUrl } });
    expect(of('kept')).toEqual(['key in a blocked team: it is blocked, and is not created']);
    const notTaken = of('not taken');
    for (const line of [
      'model cloud: there is no provider type for bedrock/claude',
      'model slow (hosted_vllm/simulated-large): no equivalent of temperature',
      'model hosted_vllm/*: patterns have no equivalent; its models are vllm-other-example/<model>',
      'fallback of slow: cloud is not in model_list',
      'litellm_settings.num_retries: set RETRY_MAX_RETRIES',
      'router_settings.redis_password: no equivalent',
      'general_settings.master_key: keep it as GATEWAY_MASTER_KEY',
      `budget of /teams/Twins-${sha256('t-3').slice(0, 8)}: it has no period; it is one of 366 days`,
      `/teams/Twins-${sha256('t-2').slice(0, 8)}: no equivalent of policies`,
      'key team key: no equivalent of allowed_routes, metadata',
      'key old key: it expired at 2020-01-01T00:00:00.000Z',
      'model from-ui of the database: its parameters are encrypted; add its provider and virtual model',
    ]) {
      expect(notTaken).toContain(line);
    }
    expect(lines.join()).not.toContain('general_settings.database_url');
  });

  it('changes what differs, and deactivates a key that was blocked since', async () => {
    await db.exec(`UPDATE "LiteLLM_TeamTable" SET max_budget = 80 WHERE team_id = 't-1';
      UPDATE "LiteLLM_VerificationToken" SET blocked = true, models = '{fast}' WHERE key_alias = 'own limits';`);
    const run = await migrate({ values: { databaseUrl } });
    expect(run.of('changed')).toEqual([
      'budget user_path /organizations/Acme/Alpha-Team 604800: amount 100 → 80',
      expect.stringMatching(/^key own limits: allowed_models .*, enabled true → false$/),
    ]);
    expect((await chat('sk-own', 'fast')).status).toBe(401);
    expect((await migrate({ values: { databaseUrl } })).of('changed')).toEqual([]);
  });

  it('writes providers with keys in variables for chancery.yaml with --output; what needs them waits', async () => {
    const config = {
      model_list: [
        { model_name: 'claude', litellm_params: { model: 'claude-sonnet', api_key: 'os.environ/ANTHROPIC' } },
      ],
    };
    const output = join(folder, 'part.yaml');
    const dry = await migrate({ config, values: { output }, on: ['dryRun'] });
    expect(existsSync(output)).toBe(false);
    const run = await migrate({ config, values: { output }, env: { ANTHROPIC: 'anthropic-secret' } });
    expect(run.lines[0]).toBe(`written    ${output}: providers anthropic`);
    expect(run.of('waits')).toEqual([
      'virtual model claude: the gateway has no provider anthropic: put the written providers into chancery.yaml, restart, repeat',
    ]);
    expect(dry.lines.slice(0, -1)).toEqual(run.lines.slice(0, -1));
    const written = readFileSync(output, 'utf8');
    expect(written).not.toContain('anthropic-secret');
    expect(parse(written)).toEqual({
      providers: {
        anthropic: {
          type: 'anthropic',
          api_keys: [`\${ANTHROPIC}`],
          models: ['claude-sonnet'],
          models_mode: 'allowlist',
        },
      },
    });
    const flags = { config: output, dataDir: folder };
    const loaded = loadConfig({ flags, env: { ANTHROPIC: 'x' }, cwd: folder, providerTypes });
    expect(loaded).toMatchObject({ ok: true });
  });

  it('writes the names of LiteLLM as they are: none becomes a reference to a variable or a file', async () => {
    const names = [
      `\${GATEWAY_MASTER_KEY}`,
      `$\${X}`,
      `\${file:/etc/passwd}`,
      `\${X:-y}`,
      `a\${`,
      '$$',
      `\${env:X}`,
      `$$\${X}`,
    ];
    const at = { api_base: `http://localhost/\${X}`, api_version: `$\${X}`, api_key: 'os.environ/AZURE_KEY' };
    const config = {
      model_list: names.flatMap((name, place) => [
        { model_name: `m${place}`, litellm_params: { model: `openai/${name}`, api_key: 'os.environ/OPENAI' } },
        { model_name: `n${place}`, litellm_params: { model: `azure/${name}`, ...at } },
      ]),
    };
    const output = join(folder, 'names.yaml');
    await migrate({ config, values: { output }, on: ['dryRun'] });
    await migrate({ config, values: { output } });
    const env = { OPENAI: 'one', AZURE_KEY: 'two', X: 'live', GATEWAY_MASTER_KEY: 'live' };
    const written = expandVariables(parse(readFileSync(output, 'utf8')), env, undefined, () => 'live');
    expect(written).toEqual({
      value: {
        providers: {
          openai: { type: 'openai', api_keys: ['one'], models: names.toSorted(), models_mode: 'allowlist' },
          azure: {
            type: 'azure',
            base_url: at.api_base,
            api_version: at.api_version,
            api_keys: ['two'],
            models: names.toSorted(),
            models_mode: 'allowlist',
          },
        },
      },
      missing: [],
      unknown: [],
    });
  });

  it.each([
    [{ api_key: `os.environ/A}\${file:/etc/passwd}` }, `A}\${file:/etc/passwd}`],
    [{ api_key: 'os.environ/A', api_base: `os.environ/B:-\${X}` }, `B:-\${X}, A`],
    [{ api_key: 'os.environ/A\n' }, 'A\\u000a'],
  ])('writes no reference to a variable that has no name of one: %j', async (given, named) => {
    const config = { model_list: [{ model_name: 'm', litellm_params: { model: 'openai/gpt', ...given } }] };
    const output = join(folder, 'no-names.yaml');
    const { of } = await migrate({ config, values: { output } });
    expect(existsSync(output)).toBe(false);
    expect(of('not taken')).toEqual([expect.stringContaining(`provider openai: ${named} not set;`)]);
  });

  it('prints one line for each object, whatever its name', async () => {
    const forged = 'm\r\nrefused    forged\nnot taken  forged';
    const config = {
      model_list: [
        { model_name: forged, litellm_params: { model: 'hosted_vllm/simulated-small', api_base: simulated } },
        { model_name: forged, litellm_params: { model: 'bedrock/x' } },
      ],
    };
    for (const on of [['dryRun'], []]) {
      const { lines } = await migrate({ config, on });
      expect(lines.filter((line) => line.includes('forged'))).toEqual([
        expect.stringMatching(/^(new|refused) +virtual model m\\u000d\\u000arefused {4}forged\\u000anot taken/),
        expect.stringMatching(/^not taken {2}model m\\u000d\\u000arefused {4}forged\\u000anot taken/),
      ]);
    }
  });

  it('replaces no file with another content, such as the configuration', async () => {
    const output = join(folder, 'chancery.yaml');
    writeFileSync(output, 'server: {}\n');
    const litellm_params = { model: 'claude-sonnet', api_key: 'os.environ/ANTHROPIC' };
    const config = { model_list: [{ model_name: 'claude', litellm_params }] };
    await expect(migrate({ config, values: { output } })).rejects.toThrow(/exists with another content/);
    expect(readFileSync(output, 'utf8')).toBe('server: {}\n');
  });

  it('creates no key at a path whose policy or limit could not be set', async () => {
    const keys = () => get('/admin/auth-keys');
    await db.exec(`INSERT INTO "LiteLLM_TeamTable" (team_id, team_alias, models) VALUES ('t-5', 'Early', '{claude}');
      INSERT INTO "LiteLLM_VerificationToken" (token, key_alias, team_id) VALUES ('${sha256('sk-early')}', 'early', 't-5');`);
    const litellm_params = { model: 'claude-sonnet', api_key: 'os.environ/ANTHROPIC' };
    const config = { model_list: [{ model_name: 'claude', litellm_params }] };
    const before = (await keys()).length;
    const { of } = await migrate({ config, values: { databaseUrl } });
    expect(of('waits')).toContain('key early: /teams/Early has not its policy and its limits');
    expect((await keys()).length).toBe(before);
    expect((await chat('sk-early', 'fast')).status).toBe(401);
  });

  it('shows no password in the address of a provider', async () => {
    const api_base = 'http://user:base-secret@other.example/v1';
    const config = {
      model_list: [{ model_name: 'm', litellm_params: { model: 'mistral/m', api_base, api_key: 'k' } }],
    };
    const run = await migrate({ config });
    expect(run.of('new')).toContainEqual(expect.stringContaining('provider mistral'));
    const again = await migrate({ config });
    expect(again.lines.at(-1)).toMatch(/^0 new, 0 changed, 2 same, 0 kept/);
    expect(`${run.text}${again.text}`).not.toContain('base-secret');
  });

  it('leaves a key that was deactivated here', async () => {
    const key = (await get('/admin/auth-keys')).find(({ name }: Answered) => name === 'team key');
    await gateway.fetch(`/admin/auth-keys/${key.id}/deactivate`, { method: 'POST' });
    await migrate({ values: { databaseUrl } });
    expect((await chat('sk-team', 'fast')).status).toBe(401);
  });

  it('names the variables that are not set, without --output', async () => {
    const config = {
      model_list: [
        { model_name: 'claude', litellm_params: { model: 'claude-sonnet', api_key: 'os.environ/ANTHROPIC' } },
      ],
    };
    const { of, code } = await migrate({ config, env: {} });
    expect(of('not taken')).toEqual([
      'provider anthropic: ANTHROPIC not set; set them, or give --output for a part of chancery.yaml',
    ]);
    expect(of('waits')).toHaveLength(1);
    expect(code).toBe(0);
  });

  it('brings further models of a provider', async () => {
    const { model_list: list, ...others } = models();
    const model = 'hosted_vllm/simulated-reasoning';
    const more = { model_name: 'more', litellm_params: { model, api_base: simulated } };
    const { of } = await migrate({ config: { model_list: [...list, more], ...others } });
    expect(of('changed')).toEqual([expect.stringMatching(/^provider vllm: models /)]);
    expect(of('new')).toEqual([expect.stringContaining('virtual model more')]);
  });

  it('sets one limit of a model that is in several groups', async () => {
    const of = (model_name: string, rpm: number) => {
      return { model_name, litellm_params: { model: 'hosted_vllm/simulated-large', api_base: simulated, rpm } };
    };
    const config = { model_list: [of('one', 5), of('two', 6)] };
    expect((await migrate({ config })).of('new')).toContain('rate limit model vllm/simulated-large 60: max_requests 5');
    expect((await migrate({ config })).lines.at(-1)).toMatch(/^0 new, 0 changed/);
  });

  it('leaves a provider of the same name with other settings as it is', async () => {
    const config = {
      model_list: [
        { model_name: 'x', litellm_params: { model: 'hosted_vllm/x', api_base: 'http://other.example/v1' } },
      ],
    };
    const { of } = await migrate({ config });
    expect(of('kept')).toEqual([expect.stringMatching(/^provider vllm: .*base_url .*: it stays as it is$/)]);
  });

  it('prints what the gateway refuses, and goes on', async () => {
    const config = {
      model_list: [
        { model_name: 'a/', litellm_params: { model: 'hosted_vllm/simulated-small', api_base: simulated } },
        { model_name: 'fine', litellm_params: { model: 'hosted_vllm/simulated-large', api_base: simulated } },
      ],
    };
    const dry = await migrate({ config, on: ['dryRun'] });
    expect(dry.of('refused')).toEqual([]);
    expect(dry.lines.at(-1)).toMatch(/; nothing was changed, nor sent for the gateway to check$/);
    const { of, code } = await migrate({ config });
    expect(of('refused')).toEqual([expect.stringContaining("virtual model a/: source: 'source' is 'a/'")]);
    expect(of('new')).toEqual([expect.stringContaining('virtual model fine')]);
    expect(code).toBe(1);
  });

  it('needs no gateway with --dry-run', async () => {
    const shown = screen();
    writeFileSync(join(folder, 'config.yaml'), stringify(models()));
    const args = typed({ values: { config: 'config.yaml' }, on: ['dryRun'] });
    expect(await migrateLitellm(args, parts({ OTHER_KEY: 'x' }), shown)).toBe(0);
    expect(partsOf(shown.lines(), 'new').length).toBeGreaterThan(6);
  });

  it('states a wrong key, an unreachable gateway and an unreachable database', async () => {
    const wrong = await migrate({ values: { key: 'wrong' } });
    expect(wrong.code).toBe(1);
    expect(wrong.of('refused').length).toBeGreaterThan(0);
    const absent = await migrate({ values: { gateway: 'http://127.0.0.1:9' } });
    expect(absent).toMatchObject({ code: 1, text: expect.stringContaining('does not answer') });
    const unreadable = await migrate({ values: { databaseUrl: 'postgres://x:db-password@127.0.0.1:9/y' } });
    expect(unreadable).toMatchObject({ code: 1, text: expect.stringContaining('the database cannot be read') });
    expect(unreadable.text).not.toContain('db-password');
  });

  it.each([
    [{ config: 'missing.yaml', gateway: 'http://x' }, /--config: missing.yaml: ENOENT/],
    [{ gateway: 'http://x' }, /--config is missing/],
    [{ config: 'fine.yaml' }, /--gateway is missing/],
    [{ config: 'fine.yaml', gateway: 'x' }, /--gateway: expected an address/],
    [{ config: 'wrong.yaml', gateway: 'http://x' }, /--config: wrong.yaml: .*model_name/s],
  ])('states what is wrong with %j', async (values, message) => {
    writeFileSync(join(folder, 'fine.yaml'), 'model_list: []');
    writeFileSync(join(folder, 'wrong.yaml'), 'model_list: [{ litellm_params: { model: x } }]');
    const run = migrateLitellm(typed({ values: { key: 'k', ...values } }), parts(), screen());
    await expect(run).rejects.toThrow(message);
    await expect(run).rejects.toBeInstanceOf(UsageError);
  });
});
