/**
 * `chancery doctor`: checks what a gateway needs of its machine, and says what to do. Each check is bounded in time and
 * changes nothing that stays. Values of settings in a finding are masked.
 */
import { X509Certificate } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync, statfsSync, statSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { reasonToBeOff } from '../analytics/process.ts';
import { findSandbox } from '../analytics/sandbox.ts';
import type { Examined, Finding } from '../cli/program-parts.ts';
import { missingSharedKey } from '../config/config.ts';
import { maskAddress, maskProxy } from '../config/mask.ts';
import { hostOf } from '../providers/checked-lookup.ts';
import { createProvider } from '../providers/create-provider.ts';
import { proxiesOf } from '../providers/proxies.ts';

type Found = Omit<Finding, 'check'>;
type Check = (examined: Examined) => Found[] | Promise<Found[]>;

const CHECK_MS = 15_000;
const ANSWER_MS = 5000;
const MIB = 1024 * 1024;
const DAY_MS = 86_400_000;

const checks: Readonly<Record<string, Check>> = {
  secrets: sharedKey,
  folder,
  disk: diskSpeed,
  clock,
  port,
  analytics,
  sandbox,
  proxy,
  certificates,
  providers,
};

/** In the order of the checks, which run at the same time. */
export async function examine(examined: Examined): Promise<Finding[]> {
  const found = Object.entries(checks).map(async ([check, run]): Promise<Finding[]> => {
    const late = delay(CHECK_MS, [problem(`no result within ${CHECK_MS / 1000} s`)], { ref: false });
    const results = await Promise.race([Promise.resolve(examined).then(run), late]).catch((error: unknown) => [
      problem(whyOf(error)),
    ]);
    return results.map((one) => ({ check, ...one }));
  });
  return (await Promise.all(found)).flat();
}

const ok = (message: string): Found => ({ status: 'ok', message });
const warning = (message: string, advice?: string): Found => ({ status: 'warning', message, advice });
const problem = (message: string, advice?: string): Found => ({ status: 'problem', message, advice });

function whyOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function sharedKey({ config }: Examined): Found[] {
  const missing = missingSharedKey(config);
  return missing === undefined ? [] : [problem(`CREDENTIALS_KEY: ${missing}`)];
}

/** The data folder, or the nearest folder above it that exists. */
function existingFolder({ config }: Examined): string {
  let path = config.dataDir;
  while (!existsSync(path)) path = dirname(path);
  return path;
}

function folder(examined: Examined): Found[] {
  const path = existingFolder(examined);
  const { uid, mode } = statSync(path);
  try {
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    const own = process.getuid?.();
    return [problem(`${path} is not writable`, `give it to the user of the gateway: chown -R ${own} ${path}`)];
  }
  const isData = path === examined.config.dataDir;
  const found = [ok(isData ? `${path} is writable` : `${examined.config.dataDir} can be created at the first start`)];
  if (isData && process.getuid !== undefined && uid !== process.getuid()) {
    found.push(
      warning(
        `${path} belongs to user ${uid}, not to ${process.getuid()}`,
        'run this command as the user of the gateway',
      ),
    );
  }
  if (isData && (mode & 0o007) !== 0) found.push(warning(`${path} is open to every user`, `chmod 700 ${path}`));
  const { bavail, bsize } = statfsSync(path);
  const free = Math.floor((bavail * bsize) / MIB);
  const advice = 'add space, or set DATA_DIR to a larger disk; the log grows with every request';
  if (free < 256) found.push(problem(`${free} MiB are free`, advice));
  else found.push(free < 5120 ? warning(`${free} MiB are free`, advice) : ok(`${free} MiB are free`));
  return found;
}

/** Writes 4 KiB at a time and syncs them, as the log does: 200 times, or for two seconds. */
async function diskSpeed(examined: Examined): Promise<Found[]> {
  const path = join(existingFolder(examined), `.chancery-doctor-${process.pid}`);
  const times: number[] = [];
  const file = await open(path, 'wx', 0o600);
  try {
    const end = performance.now() + 2000;
    for (let n = 0; n < 200 && performance.now() < end; n++) {
      const begun = performance.now();
      await file.write(Buffer.alloc(4096, n), 0, 4096, n * 4096);
      await file.datasync();
      times.push(performance.now() - begun);
    }
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
  const p99 = times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? 0;
  const message = `a sync takes ${p99.toFixed(1)} ms (p99 of ${times.length})`;
  const advice = 'each answer waits for one: put DATA_DIR on a local SSD, not on a network disk';
  return [p99 > 50 ? warning(message, advice) : ok(message)];
}

function clock({ config }: Examined): Found[] {
  const newest = Math.max(0, ...['log', 'views.db'].map((name) => modifiedAt(join(config.dataDir, name))));
  const ahead = newest - Date.now();
  const advice = 'set the clock, and keep it with NTP (chrony, systemd-timesyncd)';
  if (ahead > 5000)
    return [warning(`the clock is ${Math.round(ahead / 1000)} s behind the last change of the log`, advice)];
  if (new Date().getFullYear() < 2025) return [problem(`the clock says ${new Date().toISOString()}`, advice)];
  return [ok(`the clock says ${new Date().toISOString()}`)];
}

function modifiedAt(path: string): number {
  return existsSync(path) ? statSync(path).mtimeMs : 0;
}

async function port({ config }: Examined): Promise<Found[]> {
  const { host, port: number } = config.server;
  if (number === 0) return [ok('a free port is chosen at each start')];
  const place = `${host}:${number}`;
  const code = await new Promise<string | undefined>((done) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
    server.listen({ host, port: number, exclusive: true }, () => server.close(() => done(undefined)));
  });
  if (code === undefined) return [ok(`${place} is free`)];
  if (code !== 'EADDRINUSE') return [problem(`${place} cannot be used: ${code}`, 'set HOST and PORT to others')];
  const there = ['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  const status = await readiness(`http://${there}:${number}`).catch(() => undefined);
  if (status === undefined) return [problem(`${place} is in use by another program`, 'set PORT to another one')];
  if (status === 'ready') return [ok(`a gateway runs on ${place}, and is ready`)];
  return [warning(`a gateway runs on ${place}, and is ${status}`, 'GET /health/ready and its output name the reason')];
}

async function readiness(url: string): Promise<string> {
  const answer = await fetch(`${url}/health/ready`, { signal: AbortSignal.timeout(ANSWER_MS) });
  const { status, components } = Object(await answer.json());
  if (typeof status !== 'string' || components === undefined) throw new Error('not a gateway');
  return status;
}

async function analytics({ config }: Examined): Promise<Found[]> {
  const { enabled, clickhouse } = config.analytics;
  if (!enabled) return [ok('analytics is off')];
  if (clickhouse.url === undefined) {
    const why = reasonToBeOff(config);
    return [why === undefined ? ok('the embedded ClickHouse is installed') : warning(why)];
  }
  const place = maskAddress(clickhouse.url);
  try {
    // Without user and password, which `fetch` refuses and would print.
    const answer = await fetch(Object.assign(new URL(`${clickhouse.url}/ping`), { username: '', password: '' }), {
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    if (answer.ok) return [ok(`ClickHouse answers at ${place}`)];
    return [warning(`${place} answers ${answer.status}`, 'check CLICKHOUSE_URL')];
  } catch (error) {
    return [
      warning(
        `ClickHouse does not answer at ${place}: ${whyOf(error)}`,
        'requests are served without it; check CLICKHOUSE_URL',
      ),
    ];
  }
}

async function sandbox({ config, env }: Examined): Promise<Found[]> {
  const { enabled, sandbox: mode } = config.analytics;
  if (!enabled || mode === 'off') return [ok('no sandbox is used')];
  const found = await findSandbox({ reads: [], writes: [], network: false }, process.execPath, env['PATH']);
  if (!('why' in found)) return [ok('the sandbox of analytics works')];
  const advice = 'install bubblewrap and allow user namespaces, or set ANALYTICS_SANDBOX=off';
  return [mode === 'required' ? problem(found.why, advice) : warning(found.why, advice)];
}

async function proxy({ config }: Examined): Promise<Found[]> {
  const { https, http } = config.proxies;
  const set = Object.entries({
    'proxy of https addresses': https,
    'proxy of http addresses': http,
    ...Object.fromEntries(config.providers.map(({ name, proxyUrl }) => [`proxy of ${name}`, proxyUrl])),
  }).filter(([, address]) => address !== undefined && address !== 'none');
  if (set.length === 0) return [ok('no proxy is set')];
  return Promise.all(
    set.map(async ([name, address = '']) => {
      const shown = `${name}, ${maskProxy(address)}`;
      const { protocol, port } = new URL(address);
      const usual = { 'https:': 443, 'socks5:': 1080, 'socks5h:': 1080 }[protocol] ?? 80;
      const why = await whyNotReached(hostOf(address), Number(port) || usual);
      return why === undefined
        ? ok(`${shown} can be reached`)
        : warning(`${shown} cannot be reached: ${why}`, 'check its address');
    }),
  );
}

function whyNotReached(host: string, at: number): Promise<string | undefined> {
  return new Promise((done) => {
    const socket = connect({ host, port: at, timeout: ANSWER_MS });
    const over = (why: string | undefined) => {
      socket.destroy();
      done(why);
    };
    socket.once('connect', () => over(undefined));
    socket.once('timeout', () => over('it does not answer'));
    socket.once('error', (error: NodeJS.ErrnoException) => over(error.code ?? error.message));
  });
}

/** Every setting that names a file of certificates. */
function certificates({ settings, cwd }: Examined): Found[] {
  return certificateFiles(settings, []).flatMap(({ setting, file }): Found[] => {
    const path = resolve(cwd, file);
    let found: X509Certificate[];
    try {
      const blocks =
        readFileSync(path, 'utf8').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
      found = blocks.map((block) => new X509Certificate(block));
    } catch (error) {
      return [problem(`${setting}: ${path}: ${whyOf(error)}`)];
    }
    if (found.length === 0) return [problem(`${setting}: ${path} has no certificate`, 'it must be a PEM file')];
    return found.map((certificate) => dated(`${setting}: ${certificate.subject.replaceAll('\n', ', ')}`, certificate));
  });
}

function dated(name: string, { validFromDate, validToDate }: X509Certificate): Found {
  const days = Math.floor((validToDate.getTime() - Date.now()) / DAY_MS);
  if (days < 0) return problem(`${name} has expired`, 'replace the file');
  if (validFromDate.getTime() > Date.now()) return problem(`${name} is not valid yet`, 'check the clock and the file');
  return days < 30
    ? warning(`${name} expires in ${days} days`, 'replace the file')
    : ok(`${name} is valid for ${days} days`);
}

function certificateFiles(node: unknown, path: readonly string[]): { setting: string; file: string }[] {
  if (typeof node === 'string') {
    return /(^|_)(ca|cert)(_file)?$/.test(path.at(-1) ?? '') ? [{ setting: path.join('.'), file: node }] : [];
  }
  if (typeof node !== 'object' || node === null) return [];
  return Object.entries(node).flatMap(([key, member]) => certificateFiles(member, [...path, key]));
}

async function providers({ config, callsProviders }: Examined): Promise<Found[]> {
  const notices = config.notices.map((notice) => warning(notice));
  if (config.providers.length === 0) {
    return [
      ...notices,
      warning('no provider is configured', 'set OPENAI_API_KEY or another variable, or add one at run time'),
    ];
  }
  if (!callsProviders)
    return [...notices, ok(`${config.providers.length} are configured; --call requests their model lists`)];
  const proxyOf = proxiesOf(config.proxies);
  const called = config.providers.map(async (settings): Promise<Found> => {
    const { name, baseUrl } = settings;
    const provider = createProvider({ ...settings, proxyOf });
    try {
      const models = await provider.listModels(AbortSignal.timeout(10_000));
      return ok(`${name} lists ${models.length} models`);
    } catch (error) {
      return problem(
        `${name} at ${maskAddress(baseUrl)}: ${whyOf(error)}`,
        'check its address, its key and the way to it',
      );
    } finally {
      void provider.close();
    }
  });
  return [...notices, ...(await Promise.all(called))];
}
