/** Starts the servers of a comparison by their names. */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { UpstreamName, Upstreams } from '../upstream/start-upstreams.ts';
import { PROVIDERS } from '../work.ts';
import { cores } from './cores.ts';
import { GATEWAY_KEY, startGateway } from './gateway.ts';
import { governedKey } from './governed-key.ts';
import { becomeIdle } from './idle.ts';
import type { Server } from './launch.ts';
import { startBarePassthrough } from './stand-ins.ts';
import type { Subject } from './subject.ts';

/** In the order in which tables list them. */
export const SUBJECTS = ['direct', 'bare', 'gateway', 'shipped', 'governed'] as const;
export type SubjectKind = (typeof SUBJECTS)[number];

export interface SubjectOptions {
  readonly kinds: readonly SubjectKind[];
  /** Further checkouts of the project, by name: each gateway of `kinds` is also started from each of them. */
  readonly trees: ReadonlyMap<string, string>;
  /** Where data folders are made; each is new. */
  readonly workDir: string;
  readonly upstreams: Upstreams;
  readonly nodeFlags?: readonly string[];
  /** Called for each process, so that it is stopped whatever happens. */
  started(server: Server): void;
}

/** All models behind the providers, which are named like their variables. */
const SELECTORS = Object.keys(PROVIDERS).map((prefix) => `${prefix.toLowerCase().replace('_', '-')}/`);
const REST_TIMEOUT_MS = 60_000;
const UPSTREAM_NAMES: readonly UpstreamName[] = ['instant', 'timed'];

export async function startSubjects(options: SubjectOptions): Promise<Subject[]> {
  const { kinds, trees } = options;
  const subjects: Subject[] = [];
  for (const kind of SUBJECTS.filter((each) => kinds.includes(each))) {
    if (kind === 'direct') subjects.push(direct(options));
    else if (kind === 'bare') subjects.push(await bare(options));
    else {
      subjects.push(await gateway(kind, kind, undefined, options));
      for (const [name, tree] of trees) subjects.push(await gateway(`${kind}@${name}`, kind, tree, options));
    }
  }
  return subjects;
}

function direct({ upstreams }: SubjectOptions): Subject {
  return {
    name: 'direct',
    isAlone: cores.server !== undefined,
    asked: (upstream) => ({ origin: upstreams.servers[upstream].origin, isGateway: false, headers: {} }),
    process: (upstream) => upstreams.servers[upstream],
    rest: async () => true,
  };
}

async function bare({ upstreams, started, nodeFlags = [] }: SubjectOptions): Promise<Subject> {
  const start = async (upstream: UpstreamName) => {
    const server = await startBarePassthrough(upstreams.servers[upstream], { cores: cores.server, nodeFlags });
    started(server);
    return server;
  };
  const servers = { instant: await start('instant'), timed: await start('timed') };
  return {
    name: 'bare',
    isAlone: false,
    asked: (upstream) => ({ origin: servers[upstream].origin, isGateway: false, headers: {} }),
    process: (upstream) => servers[upstream],
    rest: () => becomeIdle(UPSTREAM_NAMES.map((name) => servers[name].pid)),
  };
}

async function gateway(
  name: string,
  kind: Exclude<SubjectKind, 'direct' | 'bare'>,
  tree: string | undefined,
  { upstreams, started, workDir, nodeFlags = [] }: SubjectOptions,
): Promise<Subject> {
  const isShipped = kind === 'shipped';
  const server = await startGateway({
    dataDir: join(workDir, `${name.replaceAll(/[^\w@-]/g, '_')}-${process.pid}`),
    cores: cores.server,
    nodeFlags,
    providers: Object.fromEntries(
      Object.entries(PROVIDERS).map(([prefix, [upstream, route]]) => [
        prefix,
        `${upstreams.servers[upstream].origin}/${route}/v1`,
      ]),
    ),
    env: isShipped ? { ANALYTICS_ENABLED: 'true', ANALYTICS_HTTP_PORT: '0' } : {},
    ...(tree === undefined ? {} : { tree }),
  });
  started(server);
  const key = kind === 'governed' ? await governedKey(server, SELECTORS) : GATEWAY_KEY;
  return {
    name,
    isAlone: false,
    asked: () => ({ origin: server.origin, isGateway: true, headers: { authorization: `Bearer ${key}` } }),
    process: () => server,
    rest: async () => (!isShipped || (await analyticsCaughtUp(server))) && becomeIdle([server.pid]),
  };
}

async function analyticsCaughtUp({ origin }: Server): Promise<boolean> {
  const deadline = performance.now() + REST_TIMEOUT_MS;
  while (performance.now() < deadline) {
    const response = await fetch(`${origin}/metrics`, { headers: { authorization: `Bearer ${GATEWAY_KEY}` } });
    if (/^gateway_projection_lag_events\{projection="analytics"\} 0$/m.test(await response.text())) return true;
    await delay(100);
  }
  return false;
}
