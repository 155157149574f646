/** Cost of very many keys and user policies: start time and memory, from the log alone and from snapshots. */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { mintKeySecret } from '../../src/commands/access/key-directory.ts';
import { keyCreated, userPolicySet } from '../../src/events/catalogue/access.ts';
import { streamName } from '../../src/events/event.ts';
import type { StreamWrite } from '../../src/events/log.ts';
import { GATEWAY_KEY, type GatewayOptions, launchGateway } from '../servers/gateway.ts';
import { memoryOf } from '../servers/process-stat.ts';
import { median } from './median.ts';

const KEYS = 100_000;
const POLICIES = 10_000;
const STARTS = 3;
const START_TIMEOUT_MS = 60_000;
/** Idle time after which a process keeps only the memory that it needs. */
const SETTLE_MS = 2_000;

export interface Start {
  /** From the start to the first answer for a managed key, or for the master key where there are no others. */
  readonly startMs: number;
  readonly residentMb: number;
  readonly peakMb: number;
}

export interface AdminState {
  readonly keys: number;
  readonly policies: number;
  readonly empty: Start;
  /** With no snapshot, as after `chancery views rebuild`. */
  readonly fromLog: Start;
  readonly fromSnapshots: Start;
}

/** `upstream`: the base URL of a provider. */
export async function measureAdminState(workDir: string, upstream: string): Promise<AdminState> {
  const empty = join(workDir, `admin-state-empty-${process.pid}`);
  const full = join(workDir, 'admin-state');
  const key = await fillLog(full);
  const startOf = (dataDir: string, used: string) => started({ dataDir, providers: { OPENAI: upstream } }, used);
  try {
    const first: Start[] = [];
    const later: Start[] = [];
    const nothing: Start[] = [];
    for (let i = 0; i < STARTS; i++) {
      for (const suffix of ['', '-wal', '-shm']) rmSync(join(full, `views.db${suffix}`), { force: true });
      nothing.push(await startOf(empty, GATEWAY_KEY));
      first.push(await startOf(full, key));
      later.push(await startOf(full, key));
    }
    return {
      keys: KEYS,
      policies: POLICIES,
      empty: middle(nothing),
      fromLog: middle(first),
      fromSnapshots: middle(later),
    };
  } finally {
    rmSync(empty, { recursive: true, force: true });
  }
}

function middle(starts: readonly Start[]): Start {
  return {
    startMs: median(starts.map(({ startMs }) => startMs)),
    residentMb: median(starts.map(({ residentMb }) => residentMb)),
    peakMb: median(starts.map(({ peakMb }) => peakMb)),
  };
}

async function started(options: GatewayOptions, key: string): Promise<Start> {
  const began = performance.now();
  const gateway = await launchGateway(options);
  try {
    for (;;) {
      const headers = { authorization: `Bearer ${key}` };
      const status = await fetch(`${gateway.origin}/v1/models`, { headers }).then(
        async (response) => {
          await response.arrayBuffer();
          return response.status;
        },
        () => undefined,
      );
      if (status === 200) break;
      if (gateway.end() !== undefined) throw new Error(`the gateway ended by ${gateway.end()}`);
      if (performance.now() - began > START_TIMEOUT_MS) throw new Error(`no answer; the last status was ${status}`);
      await delay(5);
    }
    const startMs = performance.now() - began;
    await delay(SETTLE_MS);
    return { startMs, ...memoryOf(gateway.pid) };
  } finally {
    await gateway.stop();
  }
}

/** Writes a new log. @returns one of the keys */
async function fillLog(dataDir: string): Promise<string> {
  const { openLog } = await import('../../src/events/open-log.ts');
  const unfinished = `${dataDir}.unfinished`;
  for (const old of [dataDir, unfinished]) if (existsSync(old)) rmSync(old, { recursive: true });
  mkdirSync(unfinished, { recursive: true });
  const log = await openLog(pathToFileURL(join(unfinished, 'log')).href, { durability: 'relaxed' });
  const context = { actor: 'master' } as const;
  let last = '';
  const append = async (count: number, write: (index: number) => StreamWrite) => {
    for (let from = 0; from < count; from += 1000) {
      const writes = Array.from({ length: Math.min(1000, count - from) }, (_, place) => write(from + place));
      await log.append(writes, { until: 'written' });
    }
  };
  await append(POLICIES, (index) => {
    const userPath = pathOf(index);
    const facts = { userPath, allowedModels: ['openai/', `openai/model-${index % 50}`], description: `Team ${index}` };
    return {
      stream: streamName('user', userPath),
      events: [userPolicySet.create(facts, context)],
      expectedRevision: 'noStream',
    };
  });
  await append(KEYS, (index) => {
    const id = randomUUID();
    const { value, secretHash, lastCharacters } = mintKeySecret();
    last = value;
    const facts = {
      id,
      name: `Key number ${index}`,
      userPath: pathOf(index % POLICIES),
      labels: index % 2 === 0 ? [] : [`project-${index % 100}`],
      allowedModels: index % 3 === 0 ? ['openai/'] : [],
      dashboardAccess: index % 100 === 0,
      secretHash,
      lastCharacters,
    };
    const events = [keyCreated.create(facts, context)];
    return { stream: streamName('key', id), events, expectedRevision: 'noStream' };
  });
  await log.close();
  renameSync(unfinished, dataDir);
  return last;
}

function pathOf(index: number): string {
  return `/org-${index % 20}/dept-${index % 400}/team-${index}`;
}
