/**
 * Faults of the engine in rounds whose log is on Kafka or EventStoreDB: it is killed before the load, under load and
 * together with the gateway, it is disturbed, and the gateway loses its copy of the log.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import type { ServedGateway } from '../e2e/gateway-process.ts';
import { Acknowledged, recovers } from './acknowledged.ts';
import type { CrashEngine } from './engines.ts';
import type { Violation } from './evidence.ts';
import type { Random } from './random.ts';
import { replayEngine } from './replay-engine.ts';

export interface EngineSum {
  /** Times that it was down before the load, and answers that were refused meanwhile. */
  outages: number;
  refused: number;
  killsUnderLoad: number;
  disturbances: number;
  killsWithGateway: number;
  /** Starts of a gateway without its copy of the log. */
  lostReplicas: number;
  /** Events that the replay of the engine has at the end, and appends that record nothing. */
  replayed: number;
  ignored: number;
}

interface EnginePlan {
  readonly outage: boolean;
  /** One after another. */
  readonly underLoad: readonly {
    readonly afterMs: number;
    readonly kind: 'kill' | 'disturb';
    readonly downMs: number;
  }[];
  /** Whether the load lasts until the engine serves again, and a little longer. */
  readonly outlasted: boolean;
  readonly diesWithGateway: 'before' | 'after' | undefined;
  /** Whether the gateway is started while the engine still is down. */
  readonly startsBeforeEngine: boolean;
  readonly losesReplica: boolean;
}

const RECOVERS_WITHIN_MS = 20_000;
const REPLAYED_WITHIN_MS = 120_000;

export class EngineRounds {
  readonly sum: EngineSum = {
    outages: 0,
    refused: 0,
    killsUnderLoad: 0,
    disturbances: 0,
    killsWithGateway: 0,
    lostReplicas: 0,
    replayed: 0,
    ignored: 0,
  };
  readonly #engine: CrashEngine;
  readonly #chance: Random;
  readonly #dataDir: string;
  readonly #complain: (violation: Violation) => void;
  #plan: EnginePlan;
  #restarting: Promise<void> = Promise.resolve();
  #faults: Promise<void> = Promise.resolve();
  #serves = true;

  constructor(engine: CrashEngine, chance: Random, dataDir: string, complain: (violation: Violation) => void) {
    this.#engine = engine;
    this.#chance = chance;
    this.#dataDir = dataDir;
    this.#complain = complain;
    this.#plan = this.#draw(0);
  }

  /** Of the next round, whose load lasts that long. */
  plan(loadMs: number): void {
    this.#plan = this.#draw(loadMs);
  }

  /** Before the load. An engine that is down: 503 and nothing acknowledged, and recovery without a restart. */
  async outage(gateway: ServedGateway): Promise<void> {
    if (!this.#plan.outage) return;
    this.sum.outages += 1;
    const acknowledged = new Acknowledged(this.#dataDir);
    await acknowledged.begin();
    await acknowledged.ask(gateway.url);
    await this.#engine.kill();
    try {
      const asks = Array.from({ length: this.#chance.between(1, 4) }, () => acknowledged.ask(gateway.url));
      for (const answer of await Promise.all(asks)) {
        this.sum.refused += 1;
        // An append that the engine had taken before it was killed has an unknown outcome: no `Retry-After`.
        const isMarked = answer.retryAfter !== null || answer.shouldRetry === 'false';
        if (answer.status !== 503 || answer.code !== 'log_unavailable' || !isMarked) {
          this.#complain({ check: 'engine down', what: `answered ${JSON.stringify(answer)}` });
        }
      }
    } finally {
      await this.#engine.restart();
    }
    const round = { complain: this.#complain };
    await recovers('engine down', gateway, acknowledged, round);
    await acknowledged.check('engine down', round);
  }

  /** Beside the load; resolves when the engine serves again. */
  underLoad(stopped: () => boolean): Promise<void> {
    this.#serves = false;
    this.#faults = this.#faultsUnderLoad(stopped).finally(() => {
      this.#serves = true;
    });
    this.#faults.catch(() => {});
    return this.#faults;
  }

  /** Resolves when the load may end: an orderly stop needs the engine. */
  async endOfLoad(url: string, orderly: boolean, gone: Promise<unknown>): Promise<void> {
    if (!orderly && !this.#plan.outlasted) return;
    await Promise.race([this.#faults, gone]);
    await Promise.race([this.#recovered(url), gone]);
    await Promise.race([sleep(this.#chance.between(0, 500)), gone]);
  }

  /** Ends the gateway with `kill`, and sometimes the engine in the same moment. */
  async killBoth(kill: () => void, orderly: boolean): Promise<void> {
    const { diesWithGateway } = this.#plan;
    const dies = diesWithGateway !== undefined && !orderly && this.#serves;
    if (!dies || diesWithGateway === 'after') kill();
    if (!dies) return;
    this.sum.killsWithGateway += 1;
    await this.#engine.kill();
    if (diesWithGateway === 'before') kill();
    this.#restarting = this.#engine.restart();
    this.#restarting.catch(() => {});
  }

  async #recovered(url: string): Promise<void> {
    const deadline = performance.now() + RECOVERS_WITHIN_MS;
    for (;;) {
      const { ok } = await fetch(new URL('/health/ready', url)).catch(() => ({ ok: false }));
      if (ok) return;
      if (performance.now() > deadline) {
        this.#complain({ check: 'engine back', what: `the gateway was not ready ${RECOVERS_WITHIN_MS} ms later` });
        return;
      }
      await sleep(20);
    }
  }

  async #faultsUnderLoad(stopped: () => boolean): Promise<void> {
    for (const { afterMs, kind, downMs } of this.#plan.underLoad) {
      await sleep(afterMs);
      if (stopped()) return;
      if (kind === 'disturb') {
        this.sum.disturbances += 1;
        await this.#engine.disturb(this.#chance);
        continue;
      }
      this.sum.killsUnderLoad += 1;
      await this.#engine.kill();
      await sleep(downMs);
      await this.#engine.restart();
    }
  }

  /** Before the gateway is started again. */
  async beforeStart(): Promise<void> {
    if (!this.#plan.startsBeforeEngine) await this.#restarting;
    if (!this.#plan.losesReplica) return;
    this.sum.lostReplicas += 1;
    rmSync(join(this.#dataDir, 'log'), { recursive: true, force: true, maxRetries: 5 });
  }

  /** After the gateway was started: fails when the engine did not start. */
  async afterStart(): Promise<void> {
    await this.#restarting;
  }

  /** Removes the gateway's copy for good, so that the next start reads all from the engine. */
  async loseReplica(): Promise<void> {
    const { problem } = await checkLog(join(this.#dataDir, 'log'));
    if (problem !== undefined) this.#complain({ check: 'log check', what: problem.reason });
    rmSync(join(this.#dataDir, 'log'), { recursive: true, force: true, maxRetries: 5 });
    this.sum.lostReplicas += 1;
  }

  /** Decides about everything on the engine once more, and compares that with what the gateway's copy has. */
  async compareWithEngine(places: readonly string[]): Promise<void> {
    const replay = await replayEngine(this.#engine.connect(), places.length, REPLAYED_WITHIN_MS);
    this.sum.replayed = replay.events.length;
    this.sum.ignored = replay.ignored;
    const at = places.findIndex((place, index) => place !== replay.events[index]);
    if (at === -1 && replay.events.length === places.length) return;
    const what = `event ${at} of ${places.length} is ${places[at]}, on the engine ${replay.events[at]} of ${replay.events.length}`;
    this.#complain({ check: 'replay', what });
  }

  #draw(loadMs: number): EnginePlan {
    const chance = this.#chance;
    const faults = chance.happens(0.6) ? chance.between(1, 2) : 0;
    return {
      outage: chance.happens(0.15),
      underLoad: Array.from({ length: faults }, () => ({
        afterMs: chance.between(0, Math.max(1, Math.round(loadMs * 0.6))),
        kind: chance.happens(0.5) ? ('kill' as const) : ('disturb' as const),
        downMs: chance.between(0, 600),
      })),
      outlasted: chance.happens(0.5),
      diesWithGateway: chance.happens(0.4) ? chance.oneOf(['before', 'after'] as const) : undefined,
      startsBeforeEngine: chance.happens(0.5),
      losesReplica: chance.happens(0.12),
    };
  }
}

export function engineLine(sum: EngineSum): string {
  return [
    `${sum.killsUnderLoad} kills of the engine under load`,
    `${sum.killsWithGateway} together with the gateway`,
    `${sum.outages} outages (${sum.refused} requests refused)`,
    `${sum.disturbances} disturbances`,
    `${sum.lostReplicas} starts without the copy of the log`,
    `${sum.replayed} events replayed from the engine (${sum.ignored} appends ignored)`,
  ].join(', ');
}
