import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load-config.ts';
import { providerTypes } from '../../src/providers/types.ts';

const infra = join(dirname(dirname(import.meta.dirname)), 'infra');

interface Service {
  readonly image?: string;
  readonly profiles?: readonly string[];
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

const read = (file: string) => readFileSync(join(infra, file), 'utf8');
const { services }: { services: Record<string, Service> } = parse(read('compose.yaml'));

test('compose brings up the gateway, ClickHouse, Prometheus and Grafana, on this machine only', () => {
  const started = Object.entries(services).filter(([, { profiles }]) => profiles === undefined);
  expect(started.map(([name]) => name)).toEqual(['gateway', 'clickhouse', 'analytics-setup', 'prometheus', 'grafana']);
  const { image = '' } = services['clickhouse'] ?? {};
  expect(image).toMatch(/:\d+\.\d+$/);
  for (const { ports = [] } of Object.values(services))
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
});

test('every file that compose mounts is there', () => {
  const mounted = Object.values(services).flatMap(({ volumes = [] }) => volumes.filter((one) => one.startsWith('./')));
  expect(mounted.length).toBeGreaterThan(2);
  for (const one of mounted) expect(existsSync(join(infra, one.split(':')[0] ?? '')), one).toBe(true);
});

test.each(['gateway', 'analytics-setup'])('the variables that compose sets are those that the %s reads', (service) => {
  const { environment: set = {} } = services[service] ?? {};
  const env = Object.fromEntries(Object.entries(set).map(([name, value]) => [name, value.replace(/^\$\{.*\}$/, '')]));
  const loaded = loadConfig({
    flags: {},
    env: { ...env, CLICKHOUSE_PASSWORD: 'p', CLICKHOUSE_ANALYST_PASSWORD: 'a' },
    cwd: infra,
    providerTypes,
  });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const { analytics, masterKey, providers } = loaded.config;
  expect(analytics.clickhouse).toMatchObject({
    url: 'http://clickhouse:8123',
    user: 'chancery',
    password: 'p',
    analyst: { user: 'analyst', password: 'a' },
  });
  expect([masterKey, providers]).toEqual([undefined, []]);
});

test('all files that the image runs are copied into it', () => {
  const copies = read('Dockerfile').matchAll(/^COPY (?!--from)(.+) \S+$/gm);
  const copied = [...new Set([...copies].flatMap(([, from = '']) => from.split(' ')))];
  for (const path of copied) expect(existsSync(join(infra, '..', path)), path).toBe(true);
  const kept = read('Dockerfile.dockerignore')
    .match(/^!.+$/gm)
    ?.map((line) => line.slice(1));
  expect(kept?.toSorted()).toEqual(copied.toSorted());
});

test('the image has the built dashboard, without its sources and packages', () => {
  const [build = '', image = ''] = read('Dockerfile')
    .split(/^FROM /m)
    .slice(1);
  expect(build).toContain('COPY dashboard dashboard\nRUN node scripts/dashboard.mjs');
  expect(image.match(/^.*dashboard.*$/gm)).toEqual(['COPY --from=dashboard /app/dashboard/dist dashboard/dist']);
  for (const folder of ['node_modules', 'dist', 'generated']) {
    expect(read('Dockerfile.dockerignore').split('\n')).toContain(`dashboard/${folder}`);
  }
});

test('the data sources are those of the dashboards', () => {
  const { datasources } = parse(read('grafana/provisioning/datasources/chancery.yaml'));
  const known = new Set(datasources.map(({ uid }: { uid: string }) => uid));
  for (const name of ['spend', 'requests', 'gateway']) {
    const requests = [
      ...read(`grafana/dashboards/${name}.json`).matchAll(/"uid": "(chancery-(?:clickhouse|prometheus))"/g),
    ];
    expect(requests.length).toBeGreaterThan(0);
    for (const [, uid] of requests) expect(known).toContain(uid);
  }
});

test('Prometheus reads the metrics with the key that the gateway gets', () => {
  const { scrape_configs: jobs } = parse(read('prometheus.yaml'));
  const compose = parse(read('compose.yaml'));
  const [secret] = compose.services.prometheus.secrets;
  expect(jobs[0].authorization.credentials_file).toBe(`/run/secrets/${secret}`);
  const variable = compose.secrets[secret].environment;
  const value = compose.services.gateway.environment[variable];
  expect(value).toMatch(/^\$\{METRICS_KEY:\?/);
  const loaded = loadConfig({ flags: {}, env: { [variable]: 'k' }, cwd: infra, providerTypes });
  expect(loaded).toMatchObject({ config: { metrics: { enabled: true, key: 'k', endpoint: '/metrics' } } });
});
