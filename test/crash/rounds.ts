/**
 * The crash loop: load against a gateway in a process of its own, SIGKILL at a random moment, the same folder again,
 * and every check after every restart. The providers live in this process, so that they survive with their records.
 */
import { EventEmitter, once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import {
  ask,
  type Exit,
  type GatewayProcess,
  MASTER_KEY,
  type ServedGateway,
  serve,
  startProcess,
} from '../e2e/gateway-process.ts';
import { PromiseClient } from './background-and-repeated.ts';
import { CachedClient, CachedTraffic } from './cached-client.ts';
import { type BackgroundOutcome, isPromise } from './check-background-and-repeated.ts';
import { endsOf } from './check-exchanges.ts';
import { isWholeAnswer } from './check-guarded.ts';
import { type Deletion, deletions, type KnownResponse, knownResponses } from './check-responses.ts';
import { checkRound, type Evidence } from './check-round.ts';
import { type CrashSum, emptySum } from './crash-sum.ts';
import { EngineRounds } from './engine-rounds.ts';
import type { CrashEngine } from './engines.ts';
import type { Conversation, ProviderCall, Retrieved, Violation } from './evidence.ts';
import { FailingDisk, type FaultRound, failSyncs, fillDisk, loseSegments } from './faults.ts';
import { GuardedClient } from './guarded-client.ts';
import { GuardedWorkflows } from './guarded-workflows.ts';
import { LoadClient } from './load.ts';
import { logFailuresIn } from './log-failures.ts';
import { guardWithPlugin, PluginClient } from './plugin-client.ts';
import { PluginProcesses } from './plugin-processes.ts';
import { createChance, type Random } from './random.ts';
import { readAgain, readOn, readUntilAllEnded, readUntilStarted } from './read-log.ts';
import { piecesOf, RecordedLog } from './recorded-log.ts';
import { planOf, type RoundPlan } from './round-plan.ts';
import { SocketClient } from './socket-client.ts';
import { Upstreams } from './upstreams.ts';
import { WireClient } from './wire-client.ts';

export interface CrashOptions {
  readonly dataDir: string;
  readonly rounds: number;
  readonly seed: number;
  /** The longest time under load; each round takes a random part of it. */
  readonly secondsPerRound: number;
  /** Whole answers in each round before its time begins: on a busy machine there would be nothing to lose. Default: 0. */
  readonly leastAnswers?: number;
  readonly clients: number;
  /** Share (0 to 1) of the requests whose answers are large. */
  readonly largeAnswers?: number;
  /** Where the log is; default: files in the data folder, with faults of the disk instead of faults of the engine. */
  readonly engine?: CrashEngine | undefined;
  /** Called after every round. */
  readonly onRound?: (round: number, sum: CrashSum) => void;
}

type Load = Pick<Evidence, 'conversations' | 'killedAt' | 'logFailures' | 'orderly'>;

export async function runCrashRounds(options: CrashOptions): Promise<CrashSum> {
  const run = new CrashRun(options);
  try {
    return await run.all();
  } finally {
    await run.close();
  }
}

/** Every so many rounds all checksums are verified. */
const FILES_CHECKED_EVERY = 5;
const VISIBLE_WITHIN_MS = 5_000;
/** More than the longest grace period. */
const STOPS_WITHIN_MS = 15_000;
/** How many known responses of earlier rounds are fetched again after each restart. */
const LOOKED_AT_AGAIN = 15;

class CrashRun {
  readonly #options: CrashOptions;
  readonly #chance: Random;
  readonly #upstreams = new Upstreams();
  readonly #disk = new FailingDisk();
  readonly #engine: EngineRounds | undefined;
  readonly #clients: readonly LoadClient[];
  readonly #promiseClients: readonly PromiseClient[];
  readonly #guardedClients: readonly GuardedClient[];
  readonly #cachedClients: readonly CachedClient[];
  readonly #pluginClients: readonly PluginClient[];
  readonly #socketClients: readonly SocketClient[];
  readonly #workflows = new GuardedWorkflows();
  readonly #traffic: CachedTraffic;
  readonly #plugins = new PluginProcesses();
  readonly #pluginChance: Random;
  readonly #log = new RecordedLog();
  readonly #known: KnownResponse[] = [];
  readonly #deleted = new Map<string, Deletion>();
  readonly #settings: string;
  #env: Record<string, string> = {};
  #gateway: ServedGateway | undefined;
  readonly #sum = emptySum();

  constructor(options: CrashOptions) {
    const { seed, clients, largeAnswers = 0.05 } = options;
    this.#options = options;
    this.#settings = `${options.dataDir}.yaml`;
    this.#chance = createChance(seed);
    this.#clients = Array.from(
      { length: clients },
      (_, index) => new LoadClient(`c${index}`, this.#chance.fork(), largeAnswers),
    );
    this.#promiseClients = Array.from(
      { length: Math.ceil(clients / 4) },
      (_, index) => new PromiseClient(`p${index}`, this.#chance.fork()),
    );
    this.#guardedClients = Array.from(
      { length: Math.ceil(clients / 2) },
      (_, index) => new GuardedClient(`g${index}`, this.#chance.fork(), this.#workflows, index === 0),
    );
    this.#traffic = new CachedTraffic(this.#chance.fork());
    this.#cachedClients = Array.from(
      { length: Math.ceil(clients / 2) },
      (_, index) => new CachedClient(`k${index}`, this.#chance.fork(), this.#traffic, index === 0),
    );
    this.#pluginChance = this.#chance.fork();
    this.#pluginClients = Array.from(
      { length: Math.ceil(clients / 4) },
      (_, index) => new PluginClient(`b${index}`, this.#chance.fork()),
    );
    this.#socketClients = Array.from({ length: Math.ceil(clients / 4) }, () => new SocketClient(this.#chance.fork()));
    if (options.engine === undefined) return;
    const complain = ({ check, what }: Violation) => this.#complain(check, what);
    this.#engine = new EngineRounds(options.engine, createChance(seed + 1), options.dataDir, complain);
    this.#sum.engine = this.#engine.sum;
  }

  async all(): Promise<CrashSum> {
    const { rounds, onRound, engine } = this.#options;
    // Each answer is compared with its own record, also a refusal.
    const recordsAll = { LOGGING_REFUSALS_PER_MINUTE: '1000000' };
    this.#env = {
      ...(await this.#upstreams.listen()),
      ...recordsAll,
      ...this.#plugins.env,
      ...(engine !== undefined && { LOG_URL: engine.logUrl }),
      CHANCERY_CONFIG: this.#settings,
      ...{ LOG_LEVEL: 'info', GUARDRAILS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true' },
    };
    this.#writeSettings();
    let plan = this.#nextPlan();
    let gateway = await this.#start({ ...plan, endedStarts: [] });
    const wire = new WireClient(gateway.url);
    await this.#workflows.create(wire);
    await guardWithPlugin(wire);
    wire.close();
    for (let round = 1; round <= rounds; round++) {
      gateway = await this.#faulty(gateway, plan);
      const load = await this.#underLoad(gateway, plan);
      if (plan.fault === 'missing segment') await this.#missingSegment();
      if (plan.end === 'SIGTERM') await this.#checkOrderlyStop();
      if (round % FILES_CHECKED_EVERY === 0) await this.#checkFiles();
      await this.#engine?.beforeStart();
      plan = this.#nextPlan();
      gateway = await this.#start(plan);
      await this.#engine?.afterStart();
      await this.#check(gateway, load);
      this.#sum.rounds = round;
      onRound?.(round, this.#sum);
    }
    await this.#stop(gateway);
    await this.#checkWholeLog();
    if (this.#engine !== undefined) await this.#checkRebuiltLog();
    return this.#sum;
  }

  async #stop({ process }: ServedGateway): Promise<void> {
    process.kill('SIGTERM');
    await this.#exitOf(process);
    await this.#checkPluginEnded();
  }

  async close(): Promise<void> {
    this.#gateway?.process.kill('SIGKILL');
    rmSync(this.#settings, { force: true });
    this.#disk.remove();
    this.#plugins.remove();
    await this.#upstreams.close();
  }

  #nextPlan(): RoundPlan {
    const plan = planOf(this.#chance, this.#options.secondsPerRound);
    if (this.#engine === undefined) return plan;
    this.#engine.plan(plan.loadMs);
    return { ...plan, fault: undefined };
  }

  async #start({ endedStarts, drain, durability, losesViews }: RoundPlan): Promise<ServedGateway> {
    const { dataDir } = this.#options;
    const env = { ...this.#env, DRAIN_TIMEOUT: drain, LOG_DURABILITY: durability };
    if (losesViews) {
      for (const name of ['views.db', 'views.db-wal', 'views.db-shm']) rmSync(join(dataDir, name), { force: true });
    }
    for (const { afterMs, signal } of endedStarts) {
      const start = startProcess({ env: { ...env, DATA_DIR: dataDir } });
      await Promise.race([sleep(afterMs), start.exited]);
      start.kill(signal);
      const exit = await this.#exitOf(start);
      // Without a listener for it, the signal ends Node itself.
      if (exit.signal !== signal && !(signal === 'SIGTERM' && exit.code === 0)) {
        this.#complain('starts', `ended with ${exit.code ?? exit.signal}:\n${start.stdout}${start.stderr}`);
      }
      this.#sum.endedStarts += 1;
      await this.#checkPluginEnded();
    }
    return this.#serve(env);
  }

  async #serve(env: Record<string, string>): Promise<ServedGateway> {
    const { options } = this.#disk;
    this.#gateway = await serve({
      ...options,
      dataDir: this.#options.dataDir,
      env: { ...env, ...options.env },
    });
    return this.#gateway;
  }

  /** Lets the disk fail for a while, before the load. */
  async #faulty(gateway: ServedGateway, plan: RoundPlan): Promise<ServedGateway> {
    await this.#engine?.outage(gateway);
    if (plan.fault === undefined || plan.fault === 'missing segment') return gateway;
    this.#sum.faults[plan.fault] += 1;
    const env = { ...this.#env, DRAIN_TIMEOUT: plan.drain, LOG_DURABILITY: plan.durability };
    const round = this.#faultRound(() => this.#serve(env));
    if (plan.fault === 'failing sync') return failSyncs(gateway, round);
    await fillDisk(gateway, round);
    return gateway;
  }

  async #missingSegment(): Promise<void> {
    this.#sum.faults['missing segment'] += 1;
    const env = { ...this.#env, GATEWAY_MASTER_KEY: MASTER_KEY };
    await loseSegments(
      this.#faultRound(() => this.#serve(env)),
      env,
    );
  }

  #faultRound(restart: () => Promise<ServedGateway>): FaultRound {
    const { dataDir } = this.#options;
    const complain = ({ check, what }: Violation) => this.#complain(check, what);
    return { dataDir, disk: this.#disk, chance: this.#chance.fork(), complain, restart };
  }

  async #underLoad({ url, process }: ServedGateway, plan: RoundPlan): Promise<Load> {
    const conversations: Conversation[] = [];
    const answers = new EventEmitter();
    const ends = { stopped: false, exited: false };
    const wires: WireClient[] = [];
    const wire = () => {
      const made = new WireClient(url, () => answers.emit('answer'));
      wires.push(made);
      return made;
    };
    const clients = [
      ...this.#clients.map((client) => client.run(wire(), conversations, () => ends.stopped)),
      ...this.#promiseClients.map((client) => client.run(wire(), () => ends.stopped)),
      ...[...this.#guardedClients, ...this.#cachedClients, ...this.#pluginClients].map((client) =>
        client.run(wire(), conversations, () => ends.stopped),
      ),
      ...this.#socketClients.map((client) =>
        client.run(
          () => url,
          () => ends.stopped,
        ),
      ),
    ];
    const gone = process.exited.then((exit) => {
      ends.exited = true;
      return exit;
    });
    const { leastAnswers = 0 } = this.#options;
    const whole = () => conversations.filter(({ answer }) => answer.end === 'whole').length;
    while (whole() < leastAnswers && !ends.exited) await Promise.race([once(answers, 'answer'), gone]);
    const pluginKills = this.#plugins.killWithin(plan.loadMs, plan.pluginKills, this.#pluginChance);
    const reloads = this.#reload(process, plan.reloadsAfterMs, () => ends.stopped);
    const engineServes = this.#engine?.underLoad(() => ends.stopped);
    await Promise.race([sleep(plan.loadMs), gone]);
    await this.#engine?.endOfLoad(url, plan.end === 'SIGTERM', gone);
    if (ends.exited) {
      const { code, signal } = await gone;
      this.#complain('lives', `the gateway ended by itself (${code ?? signal}):\n${process.stdout}${process.stderr}`);
    }
    ends.stopped = true;
    const killedAt = performance.now();
    if (this.#engine === undefined) process.kill(plan.end);
    else await this.#engine.killBoth(() => process.kill(plan.end), plan.end === 'SIGTERM');
    const { code, signal } = await this.#exitOf(process);
    if (plan.end === 'SIGKILL') this.#sum.kills += 1;
    else {
      this.#sum.gracefulStops += 1;
      if (code !== 0)
        this.#complain('orderly stop', `it exited with ${code ?? signal}:\n${process.stdout}${process.stderr}`);
    }
    await Promise.all(clients);
    await engineServes;
    await reloads;
    this.#sum.pluginKills += await pluginKills;
    await this.#checkPluginEnded();
    for (const wire of wires) wire.close();
    return { conversations, killedAt, logFailures: logFailuresIn(process.stderr), orderly: plan.end === 'SIGTERM' };
  }

  /** With another time limit, each provider has new connections. */
  async #reload(process: GatewayProcess, afterMs: readonly number[], isOver: () => boolean): Promise<void> {
    await Promise.all(
      afterMs.map(async (ms) => {
        await sleep(Math.max(0, ms));
        if (isOver()) return;
        this.#writeSettings();
        process.kill('SIGHUP');
        this.#sum.reloads += 1;
      }),
    );
  }

  #writeSettings(): void {
    const timeout = this.#sum.reloads % 2 === 0 ? '590s' : '580s';
    writeFileSync(this.#settings, `http: { timeout: ${timeout}, stream_idle_timeout: 290s }\n`);
  }

  /** No process of a plugin outlives its gateway. */
  async #checkPluginEnded(): Promise<void> {
    for (const row of await this.#plugins.left()) this.#complain('plugin process', `it outlived its gateway: ${row}`);
  }

  /** A gateway that does not stop in time is a violation, and is killed. */
  async #exitOf(gateway: GatewayProcess): Promise<Exit> {
    const impatience = setTimeout(() => {
      const printed = `${gateway.stdout}${gateway.stderr}`;
      this.#complain('orderly stop', `it was still there ${STOPS_WITHIN_MS} ms after it was told to stop:\n${printed}`);
      gateway.kill('SIGKILL');
    }, STOPS_WITHIN_MS);
    const exit = await gateway.exited;
    clearTimeout(impatience);
    return exit;
  }

  /** The files as the last gateway left them: a torn end is no damage, anything else is. */
  async #checkFiles(): Promise<void> {
    const { problem } = await checkLog(join(this.#options.dataDir, 'log'));
    if (problem !== undefined)
      this.#complain('log check', `${problem.segment} at ${problem.offset}: ${problem.reason}`);
  }

  /** After SIGTERM everything is closed, without a restart. */
  async #checkOrderlyStop(): Promise<void> {
    await readOn(this.#log, this.#options.dataDir);
    const open = [...this.#log.exchanges.values()].filter(
      (exchange) => endsOf(exchange).length === 0 && !(isPromise(exchange) && piecesOf(exchange).length === 0),
    );
    for (const { id } of open) this.#complain('orderly stop', `exchange ${id} was left open`);
    if (this.#log.lastOfGateway !== 'gateway.stopped')
      this.#complain('orderly stop', 'gateway.stopped is not recorded');
  }

  async #check({ url, process }: ServedGateway, load: Load): Promise<void> {
    const { conversations } = load;
    await readUntilStarted(this.#log, this.#options.dataDir, process.pid, VISIBLE_WITHIN_MS);
    const promises: BackgroundOutcome[] = [];
    for (const client of this.#promiseClients) promises.push(...(await client.kept(url)));
    await readUntilAllEnded(this.#log, this.#options.dataDir, VISIBLE_WITHIN_MS);
    const keyed = [...this.#promiseClients, ...this.#guardedClients, ...this.#cachedClients];
    const given = keyed.flatMap((client) => client.given());
    const calls = this.#upstreams.newCalls();
    const known = [...knownResponses(conversations), ...this.#socketClients.flatMap((client) => client.known())];
    for (const [id, state] of deletions(conversations)) this.#deleted.set(id, state);
    const again = Array.from({ length: Math.min(LOOKED_AT_AGAIN, this.#known.length) }, () =>
      this.#known.at(this.#chance.between(0, this.#known.length - 1)),
    ).filter((one) => one !== undefined);
    const evidence = {
      ...load,
      calls,
      responses: [...known, ...again],
      deleted: this.#deleted,
      promises,
      given,
      workflows: this.#workflows.kinds,
    };
    const violations = await checkRound(evidence, this.#log, (id) => retrieve(url, id));
    this.#sum.violations.push(...violations, ...this.#socketClients.flatMap((client) => client.violations()));
    this.#count(conversations, calls);
    // A cut stream is checked by its exchange, which is about to be removed from memory; a whole response by itself.
    this.#known.push(...known.filter(({ seen }) => seen !== undefined));
    this.#log.forget();
  }

  #count(conversations: readonly Conversation[], calls: readonly ProviderCall[]): void {
    const sum = this.#sum;
    sum.requests += conversations.length;
    sum.providerCalls += calls.length;
    sum.events = this.#log.events;
    sum.promises = this.#promiseClients.reduce((count, client) => count + client.promises, 0);
    sum.keys = this.#promiseClients.reduce((count, client) => count + client.keys, 0);
    sum.socketTurns = this.#socketClients.reduce((count, client) => count + client.turns, 0);
    sum.workflows = this.#workflows.kinds.size;
    sum.hits = this.#log.cache.hits;
    sum.cached = this.#log.cache.stored.size;
    sum.purges = this.#traffic.acknowledged.length;
    for (const { request, answer } of conversations) {
      if (request.guarded !== undefined && answer.end === 'whole') sum.guarded += 1;
      if (request.plugin !== undefined && answer.status === 500) sum.pluginFailures += 1;
      if (request.plugin !== undefined && isWholeAnswer(request, answer)) sum.pluginAnswers += 1;
      if (answer.end === 'whole') sum.wholeAnswers += 1;
      else sum.cutAnswers += 1;
      sum.bytes += answer.body.length;
    }
    for (const { events } of this.#log.exchanges.values()) {
      const closedLater = events.some(
        ({ type, context }) => type.startsWith('exchange.') && context.actor === 'system',
      );
      if (closedLater) sum.openAtKill += 1;
    }
  }

  /** The events that were read round by round are still there. */
  async #checkWholeLog(): Promise<void> {
    await this.#checkFiles();
    await readOn(this.#log, this.#options.dataDir);
    await this.#compareWithFiles();
  }

  async #compareWithFiles(): Promise<void> {
    const again = await readAgain(this.#options.dataDir);
    this.#sum.violations.push(...again.violations);
    if (again.digest() !== this.#log.digest()) {
      this.#complain('history', `the log reads differently now: ${again.events} events, once ${this.#log.events}`);
    }
    this.#sum.events = again.events;
  }

  /** A copy of the log that is read from the engine again is the same. */
  async #checkRebuiltLog(): Promise<void> {
    await this.#engine?.loseReplica();
    await this.#stop(await this.#serve(this.#env));
    await readOn(this.#log, this.#options.dataDir);
    await this.#compareWithFiles();
    await this.#engine?.compareWithEngine(this.#log.places);
  }

  #complain(check: string, what: string): void {
    this.#sum.violations.push({ check, what });
  }
}

async function retrieve(url: string, id: string): Promise<Retrieved> {
  const response = await ask(url, `/v1/responses/${id}`);
  return { status: response.status, json: await response.json() };
}
