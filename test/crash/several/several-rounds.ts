/**
 * Rounds with several gateways on one log: clients of every kind, each of whose requests goes to any gateway, while gateways, their
 * networks and the engine are disturbed. After each round everything is healed, and every check runs.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkLog } from '../../../src/events/embedded/check-log.ts';
import { ask } from '../../e2e/gateway-process.ts';
import { PromiseClient } from '../background-and-repeated.ts';
import { CachedClient, CachedTraffic } from '../cached-client.ts';
import type { BackgroundOutcome } from '../check-background-and-repeated.ts';
import { endsOf } from '../check-exchanges.ts';
import { type Deletion, deletions, type KnownResponse, knownResponses } from '../check-responses.ts';
import { checkRound } from '../check-round.ts';
import type { CrashEngine } from '../engines.ts';
import type { Conversation, LogFailure, ProviderCall, Retrieved } from '../evidence.ts';
import { GuardedClient } from '../guarded-client.ts';
import { GuardedWorkflows } from '../guarded-workflows.ts';
import { LoadClient } from '../load.ts';
import { createChance, type Random } from '../random.ts';
import { readUntil } from '../read-log.ts';
import { RecordedLog } from '../recorded-log.ts';
import { SocketClient } from '../socket-client.ts';
import { Upstreams } from '../upstreams.ts';
import { type Burst, budgetBurst, checkBurst, notRecordedUsd, setPrice } from './budget-burst.ts';
import { checkKeys } from './check-keys.ts';
import { checkMadeOnce } from './check-made-once.ts';
import { checkOwners, takeoversIn } from './check-owners.ts';
import { compareLogs } from './compare-logs.ts';
import { apply, type Disturbance, describe, planOf, planOfWorkers } from './disturbances.ts';
import { FollowClient } from './follow-client.ts';
import { KeyClient } from './key-client.ts';
import { Member } from './member.ts';
import { emptySeveralSum, type SeveralSum } from './several-sum.ts';
import { SpreadWire } from './spread-wire.ts';
import { TwiceClient } from './twice-client.ts';

export interface SeveralOptions {
  /** Of all data folders. */
  readonly folder: string;
  readonly rounds: number;
  readonly seed: number;
  readonly gateways: number;
  /** The longest time within which disturbances begin. */
  readonly secondsPerRound: number;
  readonly leaseMs: number;
  readonly clients: number;
  /** Share (0 to 1) of the rounds with requests under a budget. */
  readonly budgets: number;
  /** Undefined: one service with worker processes on a log in files. */
  readonly engine: CrashEngine | undefined;
  /** Worker processes of each gateway. */
  readonly workers?: number;
  readonly onRound?: (round: number, sum: SeveralSum) => void;
}

export async function runSeveralRounds(options: SeveralOptions): Promise<SeveralSum> {
  const run = new SeveralRun(options);
  try {
    return await run.all();
  } finally {
    await run.close();
  }
}

interface Load {
  readonly conversations: readonly Conversation[];
  readonly failures: readonly LogFailure[];
  readonly burst: Burst | undefined;
  readonly plan: readonly Disturbance[];
}

const ANSWERED_WITHIN_MS = 45_000;
const READ_WITHIN_MS = 20_000;
/** How many known responses of earlier rounds are fetched again after each round. */
const LOOKED_AT_AGAIN = 10;
const FILES_CHECKED_EVERY = 10;

class SeveralRun {
  readonly #options: SeveralOptions;
  readonly #chance: Random;
  readonly #upstreams = new Upstreams();
  readonly #log = new RecordedLog();
  readonly #sum = emptySeveralSum();
  readonly #workflows = new GuardedWorkflows();
  readonly #clients;
  readonly #known: KnownResponse[] = [];
  readonly #deleted = new Map<string, Deletion>();
  #members: Member[] = [];
  #wires: SpreadWire[] = [];
  #round = 0;

  constructor(options: SeveralOptions) {
    this.#options = options;
    this.#chance = createChance(options.seed);
    this.#clients = this.#makeClients(options.clients);
  }

  #makeClients(count: number) {
    const made = <Client>(share: number, make: (index: number, chance: Random) => Client) =>
      Array.from({ length: Math.ceil(count * share) }, (_, index) => make(index, this.#chance.fork()));
    const traffic = new CachedTraffic(this.#chance.fork());
    return {
      load: made(1, (index, chance) => new LoadClient(`c${index}`, chance, 0.03)),
      promises: made(0.25, (index, chance) => new PromiseClient(`p${index}`, chance)),
      guarded: made(0.4, (index, chance) => new GuardedClient(`g${index}`, chance, this.#workflows, index === 0)),
      cached: made(0.4, (index, chance) => new CachedClient(`k${index}`, chance, traffic, index === 0)),
      twice: made(0.25, (index, chance) => new TwiceClient(`t${index}`, chance)),
      follow: made(0.25, (index, chance) => new FollowClient(`f${index}`, chance)),
      sockets: made(0.25, (_index, chance) => new SocketClient(chance)),
    };
  }

  async all(): Promise<SeveralSum> {
    await this.#start();
    const keys = [0, 1].map((index) => new KeyClient(`a${index}`, this.#chance.fork(), this.#members));
    for (this.#round = 1; this.#round <= this.#options.rounds; this.#round++) {
      const load = await this.#underLoad(keys);
      await this.#check(load, keys);
      this.#sum.rounds = this.#round;
      this.#options.onRound?.(this.#round, this.#sum);
    }
    await this.#stopAll();
    await this.#compareAll();
    return this.#sum;
  }

  async close(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.end('SIGKILL')));
    for (const wire of this.#wires) wire.close();
    await this.#upstreams.close();
  }

  async #start(): Promise<void> {
    const { gateways, folder, engine, leaseMs, workers = 1 } = this.#options;
    for (let index = 0; index < gateways; index++) {
      const upstreams = await this.#upstreams.listen();
      const urls = [upstreams['LLAMACPP_BASE_URL'], upstreams['OPENAI_BASE_URL']];
      const link = engine?.links[index];
      if (engine !== undefined && link === undefined) throw new Error(`the engine has no link for gateway ${index}`);
      const env = {
        ...upstreams,
        ...{ LOG_LEASE: `${leaseMs}ms`, LOG_LEVEL: 'info', LOGGING_REFUSALS_PER_MINUTE: '1000000' },
        ...{ GUARDRAILS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true', DRAIN_TIMEOUT: '1s' },
        ...(workers > 1 && { GATEWAY_WORKERS: String(workers) }),
        CREDENTIALS_KEY: Buffer.alloc(32, 7).toString('base64'),
      };
      const ports = new Set(urls.map((url) => Number(new URL(url ?? '').port)));
      this.#members.push(new Member({ index, dataDir: join(folder, `gateway-${index}`), env, link, ports }));
    }
    await Promise.all(this.#members.map((member) => member.start()));
    const wire = this.#wire();
    await this.#workflows.create(wire);
    await setPrice(wire);
  }

  #wire(): SpreadWire {
    const wire = new SpreadWire(this.#members, this.#chance.fork(), this.#options.workers);
    this.#wires.push(wire);
    return wire;
  }

  async #underLoad(keys: readonly KeyClient[]): Promise<Load> {
    const { leaseMs, gateways, secondsPerRound, budgets, workers = 1 } = this.#options;
    const loadMs = Math.round(secondsPerRound * 1000);
    const facts = { leaseMs, gateways, loadMs };
    const plan = workers > 1 ? planOfWorkers(this.#chance, workers, facts) : planOf(this.#chance, facts);
    const conversations: Conversation[] = [];
    const ends = { stopped: false };
    const stopped = () => ends.stopped;
    const { load, promises, guarded, cached, twice, follow, sockets } = this.#clients;
    const clients = [
      ...sockets.map((client) => {
        const wire = this.#wire();
        return client.run(() => wire.choose()?.url, stopped);
      }),
      ...[...load, ...guarded, ...cached].map((client) => client.run(this.#wire(), conversations, stopped)),
      ...promises.map((client) => client.run(this.#wire(), stopped)),
      ...twice.map((client) => client.run([this.#wire(), this.#wire()], conversations, stopped)),
      ...[...follow, ...keys].map((client) => client.run(this.#wire(), stopped)),
    ];
    const hasBurst = this.#chance.happens(budgets);
    const burst = hasBurst ? this.#burst(this.#chance.between(0, loadMs)) : undefined;
    const failures = await this.#disturb(plan);
    await sleep(this.#chance.between(100, 500));
    const done = await burst;
    if (done !== undefined) done.isQuiet = plan.length === 0;
    ends.stopped = true;
    await this.#untilAnswered(clients);
    this.#noteChanges(keys, plan);
    for (const wire of this.#wires.splice(0)) wire.close();
    const all = [...failures, ...this.#members.flatMap((one) => one.failures())];
    return { conversations, failures: all, burst: done, plan };
  }

  async #burst(afterMs: number): Promise<Burst | undefined> {
    const wires = Array.from({ length: 200 }, () => this.#wire());
    const chance = this.#chance.fork();
    await sleep(afterMs);
    return budgetBurst(wires, this.#round, chance);
  }

  /** Resolves when everything is healed and all gateways are ready. */
  async #disturb(plan: readonly Disturbance[]): Promise<LogFailure[]> {
    const { engine, secondsPerRound, leaseMs } = this.#options;
    const members = this.#members;
    const chance = this.#chance.fork();
    const failures: { from: number; to: number }[] = [];
    const complain = (what: string) => this.#complain('orderly stop', what);
    await Promise.all(
      plan.map(async (disturbance) => {
        this.#count(disturbance);
        const ofEngine = disturbance.kind.startsWith('engine');
        const failure = { from: performance.now(), to: Number.POSITIVE_INFINITY };
        if (ofEngine) failures.push(failure);
        const over = 'gateway' in disturbance ? members[disturbance.gateway]?.disturbance() : undefined;
        await apply(disturbance, { members, engine, chance, complain });
        const healed = performance.now();
        await this.#whenReady();
        this.#sum.recoveries.push(performance.now() - healed);
        // What was sent meanwhile may end later.
        failure.to = performance.now() + leaseMs;
        over?.();
      }),
    );
    if (plan.length === 0) await sleep(secondsPerRound * 500);
    return failures;
  }

  #count({ kind, ...facts }: Disturbance): void {
    const what = 'fault' in facts ? `${kind} ${facts.fault}` : kind;
    const { disturbances } = this.#sum;
    disturbances.set(what, (disturbances.get(what) ?? 0) + 1);
  }

  async #whenReady(): Promise<void> {
    await Promise.all(
      this.#members.map(async (member) => {
        if (!member.runs || (await member.ready())) return;
        if (!member.runs) return;
        this.#complain(
          'recovery',
          `gateway ${member.index} is not ready after everything was healed:\n${member.printed.slice(-4000)}`,
        );
      }),
    );
  }

  async #untilAnswered(clients: readonly Promise<void>[]): Promise<void> {
    const late = new AbortController();
    const timeout = sleep(ANSWERED_WITHIN_MS, 'late' as const, { signal: late.signal }).catch(() => undefined);
    const which = await Promise.race([Promise.all(clients), timeout]);
    late.abort();
    if (which !== 'late') return;
    this.#complain('answers', `requests were not answered ${ANSWERED_WITHIN_MS} ms after everything was healed`);
    for (const wire of this.#wires) wire.close();
    await Promise.all(clients);
  }

  #noteChanges(keys: readonly KeyClient[], plan: readonly Disturbance[]): void {
    const changes = plan.length === 0 ? this.#sum.changes : this.#sum.disturbedChanges;
    for (const key of keys) changes.push(...key.changes.splice(0).map(({ from, to }) => to - from));
  }

  /** The log as one of the gateways has it, after everything that any of them has acknowledged. */
  async #readLog(): Promise<void> {
    const markers = await Promise.all(
      this.#members.map(async ({ url, index }) => {
        const requestId = `marker-${this.#round}-${index}`;
        const json = { model: 'llamacpp/small', messages: [{ role: 'user', content: 'marker' }] };
        if (url === undefined) this.#complain('lives', `gateway ${index} has ended by itself`);
        else await (await ask(url, '/v1/chat/completions', { json, headers: { 'x-request-id': requestId } })).text();
        return requestId;
      }),
    );
    const log = this.#log;
    const { dataDir } = this.#members[this.#chance.between(0, this.#members.length - 1)] ?? { dataDir: '' };
    const isRead = () =>
      markers.every((marker) => log.byRequestId.has(marker)) &&
      [...log.exchanges.values()].every((one) => endsOf(one).length > 0);
    await readUntil(log, dataDir, isRead, READ_WITHIN_MS);
  }

  async #check({ conversations, failures, burst, plan }: Load, keys: readonly KeyClient[]): Promise<void> {
    const log = this.#log;
    const { promises, guarded, cached, twice, follow, sockets } = this.#clients;
    const { workers = 1 } = this.#options;
    const outcomes: BackgroundOutcome[] = [];
    for (const client of promises) outcomes.push(...(await client.kept(this.#anyUrl())));
    await this.#readLog();
    const calls = this.#upstreams.newCalls();
    const known = [...knownResponses(conversations), ...sockets.flatMap((client) => client.known())];
    for (const [id, state] of deletions(conversations)) this.#deleted.set(id, state);
    const again = Array.from({ length: Math.min(LOOKED_AT_AGAIN, this.#known.length) }, () =>
      this.#known.at(this.#chance.between(0, this.#known.length - 1)),
    ).filter((one) => one !== undefined);
    const evidence = {
      ...{ conversations, calls, deleted: this.#deleted, promises: outcomes, workflows: this.#workflows.kinds },
      responses: [...known, ...again],
      given: [...promises, ...guarded, ...cached, ...twice].flatMap((client) => client.given()),
      ...{ killedAt: Number.POSITIVE_INFINITY, logFailures: failures, orderly: false },
    };
    // Calls of workers are not told apart.
    const all = { has: () => true };
    const owners = checkOwners(log, calls, workers > 1 ? [{ index: 0, ports: all, pids: all }] : this.#members);
    const histories = keys.flatMap((key) => key.histories());
    const found = [
      ...(await checkRound(evidence, log, (id) => retrieve(this.#anyUrl(), id))),
      ...owners.violations,
      ...checkKeys(histories, calls),
      ...checkMadeOnce(conversations, log),
      ...[...follow, ...sockets].flatMap((client) => client.violations()),
      ...(burst === undefined ? [] : checkBurst(burst, calls, this.#sum.burst, notRecordedUsd(burst.path, log))),
    ];
    for (const { check, what } of found) this.#complain(check, what);
    if (found.length > 0)
      this.#complain('plan', plan.length === 0 ? 'nothing was disturbed' : plan.map(describe).join('; '));
    this.#known.push(...known.filter(({ seen }) => seen !== undefined));
    this.#sumUp({ conversations, plan }, calls, histories, owners);
    if (this.#round % FILES_CHECKED_EVERY === 0) await this.#checkFiles();
    log.forget();
  }

  #sumUp(
    { conversations, plan }: Pick<Load, 'conversations' | 'plan'>,
    calls: readonly ProviderCall[],
    histories: ReturnType<KeyClient['histories']>,
    owners: ReturnType<typeof checkOwners>,
  ): void {
    const sum = this.#sum;
    sum.requests += conversations.length;
    sum.wholeAnswers += conversations.filter(({ answer }) => answer.end === 'whole').length;
    sum.providerCalls += calls.length;
    sum.events = this.#log.events;
    sum.keys += histories.length;
    sum.probes += histories.reduce((count, { probes }) => count + probes.length, 0);
    for (const { confirmedAt, probes } of histories) {
      sum.probesAfter += probes.filter(({ sentAt }) => confirmedAt !== undefined && sentAt > confirmedAt).length;
    }
    sum.socketTurns = this.#clients.sockets.reduce((count, { turns }) => count + turns, 0);
    sum.followed = this.#clients.follow.reduce((count, { followed }) => count + followed, 0);
    sum.leasesLost = this.#members.reduce((count, { leasesLost }) => count + leasesLost, 0);
    sum.failedStarts = this.#members.reduce((count, { failedStarts }) => count + failedStarts, 0);
    sum.takenOver += owners.takenOver;
    sum.lateCalls += owners.lateCalls;
    if (!plan.some(({ kind }) => kind.startsWith('engine')))
      sum.takeovers.push(
        ...takeoversIn(
          this.#log,
          this.#members.flatMap(({ silences }) => silences),
        ),
      );
  }

  #anyUrl(): string {
    return this.#members[this.#chance.between(0, this.#members.length - 1)]?.url ?? '';
  }

  async #stopAll(): Promise<void> {
    for (const member of this.#members) {
      const exit = await member.end('SIGTERM');
      if (exit?.code !== 0)
        this.#complain('orderly stop', `gateway ${member.index} ended with ${exit?.code ?? exit?.signal}`);
    }
  }

  async #checkFiles(): Promise<void> {
    for (const { dataDir, index } of this.#members) {
      const { problem } = await checkLog(join(dataDir, 'log'));
      if (problem !== undefined)
        this.#complain('log check', `gateway ${index}: ${problem.segment} at ${problem.offset}: ${problem.reason}`);
    }
  }

  /** Every gateway has the same log, byte for byte, and so has one that reads it from the engine for the first time. */
  async #compareAll(): Promise<void> {
    const [first] = this.#members;
    if (first === undefined) return;
    // Each of them reads what the others recorded as their last events.
    if (this.#options.engine !== undefined) first.loseData();
    await Promise.all(this.#members.map((member) => member.start()));
    await this.#readLog();
    await this.#stopAll();
    await this.#checkFiles();
    const compared = await compareLogs(this.#members, this.#options.engine, this.#log.places);
    for (const { check, what } of compared.violations) this.#complain(check, what);
    const { digest, events, replayed, ignored } = compared;
    Object.assign(this.#sum, { digest, events, replayed, ignored });
  }

  #complain(check: string, what: string): void {
    this.#sum.violations.push({ check, what: `round ${this.#round}: ${what}` });
  }
}

async function retrieve(url: string, id: string): Promise<Retrieved> {
  const response = await ask(url, `/v1/responses/${id}`);
  return { status: response.status, json: await response.json() };
}
