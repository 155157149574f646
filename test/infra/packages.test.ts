/** The image, the chart and the unit: built, rendered and verified by their own programs where these exist. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { loadConfig } from '../../src/config/load-config.ts';
import { providerTypes } from '../../src/providers/types.ts';
import type { Answered } from '../support/answered.ts';
import { SHARED_KEY } from '../support/test-log.ts';

const root = join(import.meta.dirname, '..', '..');
const chart = join(root, 'infra', 'helm');
const folder = mkdtempSync(join(tmpdir(), 'chancery-packages-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const succeeds = (program: string, ...args: string[]) => spawnSync(program, args, { stdio: 'ignore' }).status === 0;

describe('infra/Dockerfile', () => {
  // A client without its daemon builds nothing.
  const builder = ['docker', 'podman', 'buildah'].find((program) =>
    succeeds(program, program === 'buildah' ? 'version' : 'info'),
  );

  it.skipIf(builder === undefined)(
    'builds an image that serves as another user, with a read-only root, and is healthy (needs docker or podman)',
    { timeout: 900_000 },
    () => {
      const run = (...args: string[]) => execFileSync(builder ?? '', args, { cwd: root, encoding: 'utf8' }).trim();
      run('build', '--file', 'infra/Dockerfile', '--tag', 'chancery-test', '.');
      if (builder === 'buildah') return;
      const id = run('run', '--detach', '--read-only', '--tmpfs', '/tmp', '--volume', '/data', 'chancery-test');
      try {
        expect(run('exec', id, 'id', '-u')).not.toBe('0');
        const isHealthy = () => succeeds(builder ?? '', 'exec', id, 'node', 'infra/healthcheck.mjs');
        const started = performance.now();
        while (!isHealthy() && performance.now() - started < 60_000);
        expect(isHealthy(), run('logs', id)).toBe(true);
      } finally {
        run('rm', '--force', '--volumes', id);
      }
    },
  );

  it('has a user that is not root, a volume for its data and a health check', () => {
    const image = readFileSync(join(root, 'infra/Dockerfile'), 'utf8')
      .split(/^FROM /m)
      .at(-1);
    expect(image).toMatch(/^USER [1-9]\d*:[1-9]\d*$/m);
    expect(image).toMatch(/^VOLUME \/data$/m);
    expect(image).toMatch(/^HEALTHCHECK .*CMD \["node", "infra\/healthcheck.mjs"\]$/m);
  });
});

describe('infra/helm', () => {
  const version = 'v3.21.4';
  const isLong = process.env['CHANCERY_LONG_TESTS'] === '1';
  const helm = (...args: string[]) =>
    spawnSync('go', ['run', `helm.sh/helm/v3/cmd/helm@${version}`, ...args], { cwd: root, encoding: 'utf8' });
  const runsHelm = isLong && succeeds('go', 'version');

  function rendered(values: object = {}): Answered[] {
    const file = join(folder, 'values.yaml');
    writeFileSync(file, stringify(values));
    const { stdout, stderr, status } = helm('template', 'here', chart, '--kube-version', '1.30.0', '--values', file);
    expect(status, stderr).toBe(0);
    return parseAllDocuments(stdout).map((document) => document.toJS());
  }
  const of = (objects: readonly Answered[], kind: string) => objects.filter((one) => one.kind === kind);

  it.skipIf(!runsHelm)('passes helm lint (npm run test:long, needs go)', { timeout: 600_000 }, () => {
    const { stdout, status } = helm('lint', '--strict', chart);
    expect(status, stdout).toBe(0);
  });

  it.skipIf(!runsHelm)(
    'renders one gateway with its volume (npm run test:long, needs go)',
    { timeout: 600_000 },
    () => {
      const objects = rendered({ workers: 4 });
      expect(objects.map(({ kind }) => kind).toSorted()).toEqual([
        'PodDisruptionBudget',
        'Service',
        'Service',
        'ServiceAccount',
        'StatefulSet',
      ]);
      const [set] = of(objects, 'StatefulSet');
      const [container] = set.spec.template.spec.containers;
      expect(container.securityContext).toMatchObject({
        readOnlyRootFilesystem: true,
        allowPrivilegeEscalation: false,
      });
      expect(container.env).toEqual([{ name: 'GATEWAY_WORKERS', value: '4' }]);
      expect(container.envFrom).toEqual([{ secretRef: { name: 'chancery' } }]);
      expect(container.readinessProbe.httpGet.path).toBe('/health/ready');
      expect(set.spec.volumeClaimTemplates[0].spec.resources.requests.storage).toBe('20Gi');
    },
  );

  it.skipIf(!runsHelm)(
    'renders all its values, which the gateway accepts (npm run test:long, needs go)',
    { timeout: 600_000 },
    () => {
      const objects = rendered({
        replicas: 3,
        secretName: 'keys',
        env: { DRAIN_TIMEOUT: '30s', RATE_LIMITS_ENABLED: true },
        config: { providers: { openai: { api_key: `\${OPENAI_API_KEY}` } } },
        kafka: { brokers: ['kafka1:9092', 'kafka2:9092'], topic: 'log' },
        clickhouse: { url: 'http://clickhouse:8123', user: 'chancery' },
        serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
        podDisruptionBudget: { maxUnavailable: 2 },
        nodeSelector: { disk: 'fast' },
        tolerations: [{ operator: 'Exists' }],
      });
      const [set] = of(objects, 'StatefulSet');
      expect(set.spec.replicas).toBe(3);
      const variables: Record<string, string> = Object.fromEntries(
        set.spec.template.spec.containers[0].env.map(({ name, value }: Answered) => [name, value]),
      );
      expect(variables).toMatchObject({ GATEWAY_WORKERS: '1', LOG_URL: 'kafka://kafka1:9092,kafka2:9092/log' });
      const config = join(folder, 'chancery.yaml');
      writeFileSync(config, of(objects, 'ConfigMap')[0].data['chancery.yaml']);
      const env = {
        ...variables,
        CHANCERY_CONFIG: config,
        OPENAI_API_KEY: 'x',
        CREDENTIALS_KEY: SHARED_KEY,
        DATA_DIR: folder,
      };
      const loaded = loadConfig({ flags: {}, env, cwd: folder, providerTypes });
      expect(loaded.ok ? [] : loaded.problems).toEqual([]);
      expect(of(objects, 'ServiceMonitor')[0].spec.endpoints[0].authorization.credentials).toEqual({
        name: 'keys',
        key: 'METRICS_KEY',
      });
      expect(of(objects, 'PodDisruptionBudget')[0].spec.maxUnavailable).toBe(2);
    },
  );

  it.skipIf(!runsHelm).each([
    [{ replicas: 2 }, /brokers/],
    [{ workers: 2, kafka: { brokers: ['kafka1:9092'] } }, /brokers/],
    [{ replica: 2 }, /replica/],
    [{ clickhouse: { url: 'clickhouse:8123' } }, /url/],
    [{ secretName: '' }, /secretName/],
  ])('refuses %j (npm run test:long, needs go)', { timeout: 600_000 }, (values, message) => {
    const file = join(folder, 'wrong.yaml');
    writeFileSync(file, stringify(values));
    const { status, stderr } = helm('template', 'here', chart, '--kube-version', '1.30.0', '--values', file);
    expect(status).not.toBe(0);
    expect(stderr).toMatch(message);
  });

  it('has the version of the project, and templates that are YAML', () => {
    const { version, appVersion } = parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8'));
    const project = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
    expect([version, appVersion]).toEqual([project, project]);
    const templates = readdirSync(join(chart, 'templates')).filter((name) => name.endsWith('.yaml'));
    for (const name of templates) {
      const objects = parseAllDocuments(roughly(readFileSync(join(chart, 'templates', name), 'utf8')));
      expect(
        objects.flatMap(({ errors }) => errors),
        name,
      ).toEqual([]);
      for (const object of objects) expect(object.toJS()).toMatchObject({ kind: expect.any(String), metadata: {} });
    }
  });

  it('has a schema that names every value', () => {
    const values = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'));
    const { properties } = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8'));
    expect(Object.keys(properties).toSorted()).toEqual([...Object.keys(values), 'global'].toSorted());
  });
});

/** A template with all its parts, and a word for each value. */
function roughly(template: string): string {
  return template
    .replace(/: \{\{-[^}]*(toYaml|include)[^}]*\}\}$/gm, ': {}')
    .replace(/^\s*\{\{.*\}\}\s*$/gm, '')
    .replace(/"?\{\{[^}]*\}\}"?(:"?\{\{[^}]*\}\}"?)?/g, 'x');
}

describe('infra/systemd/chancery.service', () => {
  const unit = join(root, 'infra/systemd/chancery.service');

  it.skipIf(!existsSync('/usr/bin/systemd-analyze'))('passes systemd-analyze verify (needs systemd)', () => {
    // The program of the unit is not installed here.
    const file = join(folder, 'chancery.service');
    cpSync(unit, file);
    writeFileSync(file, readFileSync(unit, 'utf8').replace(/^ExecStart=\S+/m, `ExecStart=${process.execPath}`));
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', file], { encoding: 'utf8' });
    expect(stderr.split('\n').filter((line) => line.includes('chancery.service'))).toEqual([]);
    expect(status).toBe(0);
  });

  it('runs the command of the package as no fixed user, with its data where it may write', () => {
    const text = readFileSync(unit, 'utf8');
    const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect(Object.keys(bin)).toEqual(['chancery']);
    for (const line of ['DynamicUser=yes', 'ProtectSystem=strict', 'NoNewPrivileges=yes', 'StateDirectory=chancery']) {
      expect(text.split('\n')).toContain(line);
    }
    expect(text).toMatch(/^ExecStart=\/opt\/chancery\/node_modules\/.bin\/chancery serve$/m);
    expect(text).toMatch(/DATA_DIR=\/var\/lib\/chancery$/m);
  });
});
