/** What happens to the gateways, their links and the engine in one round, drawn from the seed; several things at once. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CrashEngine } from '../engines.ts';
import type { Random } from '../random.ts';
import { type LinkFault, linkFaults } from './link.ts';
import type { Member } from './member.ts';

interface Lasting {
  readonly afterMs: number;
  readonly forMs: number;
}

export type Disturbance =
  | (Lasting & { readonly kind: 'kill' | 'stop'; readonly gateway: number; readonly losesData: boolean })
  | (Lasting & { readonly kind: 'pause'; readonly gateway: number })
  | (Lasting & {
      readonly kind: 'link';
      readonly gateway: number;
      readonly fault: LinkFault;
      readonly delayMs: number;
      readonly breaks: boolean;
    })
  | (Lasting & { readonly kind: 'worker killed' | 'worker paused'; readonly gateway: number; readonly worker: number })
  | (Lasting & { readonly kind: 'engine killed' })
  | (Lasting & { readonly kind: 'engine disturbed' });

export interface PlanOptions {
  readonly gateways: number;
  readonly leaseMs: number;
  /** Within which the disturbances begin. */
  readonly loadMs: number;
}

/** At most one thing happens to each gateway, and one to the engine; sometimes nothing happens. */
export function planOf(chance: Random, { gateways, leaseMs, loadMs }: PlanOptions): Disturbance[] {
  const count = chance.oneOf([0, 1, 1, 1, 2, 2, 3]);
  const free = Array.from({ length: gateways }, (_, index) => index);
  const plan: Disturbance[] = [];
  let engine = true;
  for (let n = 0; n < count; n++) {
    const lasting = { afterMs: chance.between(0, loadMs), forMs: durationOf(chance, leaseMs) };
    if (engine && chance.happens(0.25)) {
      engine = false;
      const kind = chance.happens(0.6) ? 'engine killed' : 'engine disturbed';
      plan.push({ kind, ...lasting, forMs: chance.between(0, 800) });
      continue;
    }
    const [gateway] = free.splice(chance.between(0, free.length - 1), 1);
    if (gateway !== undefined) plan.push({ ...toGateway(chance, gateway), ...lasting });
  }
  return plan;
}

/** With worker processes on a log in files: at most one thing happens to each of them, or one to all. */
export function planOfWorkers(chance: Random, workers: number, { leaseMs, loadMs }: PlanOptions): Disturbance[] {
  const lasting = () => ({ afterMs: chance.between(0, loadMs), forMs: durationOf(chance, leaseMs), gateway: 0 });
  if (chance.happens(0.3)) {
    const kind = chance.oneOf(['kill', 'kill', 'kill', 'stop']);
    return [{ kind, losesData: false, ...lasting(), forMs: chance.between(0, 500) }];
  }
  return Array.from({ length: workers }, (_, worker) => worker)
    .filter(() => chance.happens(0.5))
    .map((worker) => ({ kind: chance.oneOf(['worker killed', 'worker paused']), worker, ...lasting() }));
}

/** Half of them longer than others wait for a lease. */
function durationOf(chance: Random, leaseMs: number): number {
  return chance.happens(0.5) ? chance.between(1, leaseMs) : chance.between(Math.round(leaseMs * 1.3), leaseMs * 2);
}

function toGateway(chance: Random, gateway: number) {
  const kind = chance.oneOf(['kill', 'kill', 'kill', 'stop', 'pause', 'pause', 'link', 'link', 'link']);
  switch (kind) {
    case 'kill':
    case 'stop':
      return { kind, gateway, losesData: chance.happens(0.2) } as const;
    case 'pause':
      return { kind, gateway } as const;
    case 'link': {
      const facts = { fault: chance.oneOf(linkFaults), delayMs: chance.between(20, 400), breaks: chance.happens(0.4) };
      return { kind, gateway, ...facts } as const;
    }
  }
}

export function describe(disturbance: Disturbance): string {
  const { kind, afterMs, forMs, ...facts } = disturbance;
  return `${kind} ${JSON.stringify(facts)} after ${afterMs} ms for ${Math.round(forMs)} ms`;
}

export interface Disturbed {
  readonly members: readonly Member[];
  /** Undefined for a log in files. */
  readonly engine: CrashEngine | undefined;
  readonly chance: Random;
  /** Called with the gateways that did not end as they should. */
  readonly complain: (what: string) => void;
}

/** Resolves when it is over and what it ended runs again. */
export async function apply(disturbance: Disturbance, { members, engine, chance, complain }: Disturbed): Promise<void> {
  const { kind, afterMs, forMs } = disturbance;
  await sleep(afterMs);
  if (kind === 'engine killed') {
    await engine?.kill();
    await sleep(forMs);
    return engine?.restart();
  }
  if (kind === 'engine disturbed') return engine?.disturb(chance);
  const member = members[disturbance.gateway];
  if (member === undefined) return;
  // What follows happens during a reload.
  member.reload();
  switch (disturbance.kind) {
    case 'worker killed':
    case 'worker paused': {
      const pid = (await member.workers())[disturbance.worker];
      if (pid === undefined) return;
      member.silenced(pid);
      if (disturbance.kind === 'worker killed') {
        send(pid, 'SIGKILL');
        return;
      }
      send(pid, 'SIGSTOP');
      await sleep(forMs);
      send(pid, 'SIGCONT');
      return;
    }
    case 'kill':
    case 'stop': {
      const signal = disturbance.kind === 'kill' ? 'SIGKILL' : 'SIGTERM';
      const exit = await member.end(signal);
      if (signal === 'SIGTERM' && exit?.code !== 0) {
        complain(`gateway ${member.index} was stopped and ended with ${exit?.code ?? exit?.signal}`);
      }
      if (disturbance.losesData) member.loseData();
      await sleep(forMs);
      return member.start();
    }
    case 'pause':
      member.pause();
      await sleep(forMs);
      return member.resume();
    case 'link': {
      const { fault, delayMs, breaks } = disturbance;
      member.isSilent = fault !== 'slow' && fault !== 'cut';
      member.silenced();
      member.link?.disturb({ fault, delayMs });
      await sleep(forMs);
      member.link?.heal(breaks);
      member.isSilent = false;
    }
  }
}

/** It may have ended meanwhile. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
