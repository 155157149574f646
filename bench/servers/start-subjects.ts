/** Starts the servers of a comparison by their names. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { UpstreamName, Upstreams } from '../upstream/start-upstreams.ts';
import { PROVIDERS } from '../work.ts';
import { cores } from './cores.ts';
import { GATEWAY_KEY, startGateway } from './gateway.ts';
import { governedKey } from './governed-key.ts';
import { guardEverything } from './guarded-workflow.ts';
import { becomeIdle } from './idle.ts';
import type { Server } from './launch.ts';
import { type Peer, startPeer } from './peer.ts';
import { startBarePassthrough } from './stand-ins.ts';
import type { Start, Subject } from './subject.ts';
import { SUBJECTS, type SubjectKind } from './subject-kinds.ts';

export interface SubjectOptions {
  readonly kinds: readonly SubjectKind[];
  /** Further checkouts of the project, by name: each gateway of `kinds` is also started from each of them. */
  readonly trees?: ReadonlyMap<string, string>;
  readonly peers?: readonly Peer[];
  /** Where data folders are made; each is new. */
  readonly workDir: string;
  readonly upstreams: Upstreams;
  readonly nodeFlags?: readonly string[];
  /** Further environment variables of the server with that name. */
  readonly env?: (name: string) => Readonly<Record<string, string>>;
}

export interface Subjects {
  readonly all: readonly Subject[];
  /** Stops the processes and removes their data folders. */
  stop(): Promise<void>;
}

const REST_TIMEOUT_MS = 60_000;
const UPSTREAM_NAMES: readonly UpstreamName[] = ['instant', 'timed'];
/** All models behind the providers, which are named like their variables. */
const SELECTORS = Object.keys(PROVIDERS).map((prefix) => `${prefix.toLowerCase().replace('_', '-')}/`);

/** Stops the servers that were started when one of them does not start. */
export async function startSubjects(options: SubjectOptions): Promise<Subjects> {
  const { kinds, workDir, trees = new Map<string, string>(), peers = [] } = options;
  mkdirSync(workDir, { recursive: true });
  const folder = mkdtempSync(join(workDir, 'data-'));
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  process.once('exit', remove);
  const running: Server[] = [];
  const start: Start = async (server) => {
    running.push(await server);
    return server;
  };
  const all: Subject[] = [];
  const stop = async () => {
    await Promise.all(running.map((server) => server.stop()));
    remove();
    process.removeListener('exit', remove);
  };
  try {
    for (const kind of SUBJECTS.filter((each) => kinds.includes(each))) {
      if (kind === 'direct') all.push(direct(options));
      else if (kind === 'bare') all.push(await bare(options, start));
      else {
        all.push(await gateway(kind, kind, undefined, folder, options, start));
        for (const [name, tree] of trees)
          all.push(await gateway(`${kind}@${name}`, kind, tree, folder, options, start));
      }
    }
    for (const peer of peers) all.push(await startPeer(peer, folder, options.upstreams, start));
  } catch (error) {
    await stop();
    throw error;
  }
  return { all, stop };
}

function direct({ upstreams }: SubjectOptions): Subject {
  return {
    name: 'direct',
    kind: 'direct',
    isAlone: cores.server !== undefined,
    subjectRequest: (upstream) => ({ origin: upstreams.servers[upstream].origin, isGateway: false, headers: {} }),
    process: (upstream) => upstreams.servers[upstream],
    rest: async () => true,
  };
}

async function bare({ upstreams, nodeFlags = [], env }: SubjectOptions, start: Start): Promise<Subject> {
  const startFor = (upstream: UpstreamName) =>
    start(
      startBarePassthrough(upstreams.servers[upstream], { cores: cores.server, nodeFlags, env: env?.('bare') ?? {} }),
    );
  const servers = { instant: await startFor('instant'), timed: await startFor('timed') };
  return {
    name: 'bare',
    kind: 'bare',
    isAlone: false,
    subjectRequest: (upstream) => ({ origin: servers[upstream].origin, isGateway: false, headers: {} }),
    process: (upstream) => servers[upstream],
    rest: () => becomeIdle(UPSTREAM_NAMES.map((name) => servers[name].pid)),
  };
}

async function gateway(
  name: string,
  kind: Exclude<SubjectKind, 'direct' | 'bare'>,
  tree: string | undefined,
  folder: string,
  { upstreams, nodeFlags = [], env }: SubjectOptions,
  start: Start,
): Promise<Subject> {
  const isShipped = kind === 'shipped';
  const server = await start(
    startGateway({
      dataDir: join(folder, name.replaceAll(/[^\w@-]/g, '_')),
      cores: cores.server,
      nodeFlags,
      providers: Object.fromEntries(
        Object.entries(PROVIDERS).map(([prefix, [upstream, route]]) => [
          prefix,
          `${upstreams.servers[upstream].origin}/${route}/v1`,
        ]),
      ),
      env: {
        ...(kind === 'guarded' ? { GUARDRAILS_ENABLED: 'true' } : {}),
        ...(kind === 'cached' ? { RESPONSE_CACHE_ENABLED: 'true' } : {}),
        ...(isShipped ? { ANALYTICS_ENABLED: 'true', ANALYTICS_HTTP_PORT: '0' } : {}),
        ...env?.(name),
      },
      ...(tree === undefined ? {} : { tree }),
    }),
  );
  const key = kind === 'governed' ? await governedKey(server, SELECTORS) : GATEWAY_KEY;
  const isGuarded = kind === 'guarded';
  if (isGuarded) await guardEverything(server);
  return {
    name,
    kind,
    isAlone: false,
    subjectRequest: () => ({
      ...{ origin: server.origin, isGateway: true, rewrites: isGuarded || kind === 'cached' },
      headers: { authorization: `Bearer ${key}` },
    }),
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
