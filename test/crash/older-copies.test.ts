import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { deserialize, serialize } from 'node:v8';
import { afterAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { savedViews } from '../../src/projections/saved-views.ts';
import { openViewStore } from '../../src/projections/view-store.ts';
import { ask, killAll, type ServedGateway, serve, startProcess, temporaryFolder } from '../e2e/gateway-process.ts';
import { chancery } from '../support/command-line.ts';
import { countOf, seed } from '../support/seed.ts';
import { createChance, type Random } from './random.ts';

const rounds = countOf(1, 40, 'CHANCERY_COPIES_ROUNDS');
const chance = createChance(seed);
const folder = temporaryFolder();
const provider = createSimulatedProvider({ models: ['m'] });
let upstream = '';
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

const viewsFiles = ['views.db', 'views.db-wal'];
const environment = (dataDir: string) => ({ LLAMACPP_BASE_URL: upstream, LOG_URL: `file:${join(dataDir, 'log')}` });
/** A start on a busy machine may take long. */
const start = (dataDir: string) => serve({ dataDir, env: environment(dataDir), listensWithinMs: 120_000 });

/** Every response that a client was told of, whether or not the log still has it. */
const responses = new Set<string>();
const keys: string[] = [];

/** A file that is renamed or removed meanwhile is left out. */
function copyFiles(from: string, to: string, names: readonly string[]): void {
  mkdirSync(to, { recursive: true });
  for (const name of names) if (existsSync(join(from, name))) copyFileSync(join(from, name), join(to, name));
}

const copyViews = (from: string, to: string) => copyFiles(from, to, viewsFiles);
const copyLog = (from: string, to: string) =>
  copyFiles(join(from, 'log'), join(to, 'log'), existsSync(join(from, 'log')) ? readdirSync(join(from, 'log')) : []);

/** As a copying command does it: one file after the other, while the gateway writes. */
function copyAll(from: string, to: string, random: Random): string {
  const steps = [copyViews, copyLog];
  for (const step of random.happens(0.5) ? steps : steps.toReversed()) step(from, to);
  const others = readdirSync(from).filter((name) => !name.startsWith('views.db') && name !== 'log');
  copyFiles(from, to, others);
  return to;
}

async function loadUntil(url: string, random: Random, isOver: () => boolean): Promise<void> {
  const client = async (turn: Random) => {
    while (!isOver()) {
      const path = `/team-${turn.between(0, 3)}`;
      const key = turn.happens(0.5) ? keys[turn.between(0, keys.length - 1)] : undefined;
      const options = { headers: { 'x-gateway-user-path': path }, ...(key !== undefined && { key }) };
      const kind = turn.between(0, 9);
      const content = `Write ${turn.between(1, 30)} words.`;
      try {
        if (kind < 5) {
          const json = { model: 'llamacpp/m', stream: kind < 2, messages: [{ role: 'user', content }] };
          await (await ask(url, '/v1/chat/completions', { json, ...options })).text();
        } else if (kind < 8) {
          const answer = await ask(url, '/v1/responses', { json: { model: 'llamacpp/m', input: content }, ...options });
          const { id } = (await answer.json()) as { id?: string };
          if (id !== undefined) responses.add(id);
        } else if (kind === 8) {
          const made = await ask(url, '/admin/auth-keys', {
            json: { name: `k${turn.between(0, 1e9)}`, user_path: path },
          });
          const { value } = (await made.json()) as { value?: string };
          if (value !== undefined && keys.length < 6) keys.push(value);
        } else await setBudget(url, path, turn.between(50, 5_000));
      } catch {
        // The gateway was killed during this request.
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: 5 }, () => client(random.fork())));
}

const setBudget = (url: string, path: string, amount: number) =>
  ask(url, `/admin/budgets/${encodeURIComponent(path)}/daily`, { method: 'PUT', json: { amount } });

async function kill({ process }: ServedGateway): Promise<void> {
  process.kill('SIGKILL');
  await process.exited;
}

const MOST_RESPONSES = 200;
const OF_THE_MOMENT = /"(request_id|server_time|period_ratio|resets_in_seconds)":[^,}]*/g;

/** What the gateway answers about usage, budgets, keys and stored responses. */
async function figures(url: string): Promise<Record<string, string>> {
  const get = async (path: string, key?: string) => {
    const answer = await ask(url, path, key === undefined ? {} : { key });
    return `${answer.status} ${await answer.text()}`.replaceAll(OF_THE_MOMENT, '');
  };
  const found: Record<string, string> = {};
  for (const path of ['/admin/auth-keys?limit=1000', '/admin/budgets', '/admin/rate-limits'])
    found[path] = await get(path);
  for (const [at, key] of keys.entries()) found[`usage of key ${at}`] = await get('/v1/usage', key);
  const ids = [...responses];
  const some = ids.filter((_, at) => at % Math.ceil(ids.length / MOST_RESPONSES) === 0);
  await Promise.all(some.map(async (id) => (found[id] = await get(`/v1/responses/${id}`))));
  return found;
}

/** Position and id of every event that can be read, in their order. */
async function eventsIn(dataDir: string): Promise<string[]> {
  const log = await ReadOnlyLog.open(join(dataDir, 'log'));
  const events: string[] = [];
  try {
    for await (const { position, id } of log.readAll()) events.push(`${position} ${id}`);
  } catch {
    // What follows is missing or damaged.
  } finally {
    await log.close();
  }
  return events;
}

/** Starts the gateway; a refusal is accepted with the command that it names. */
async function startOrAccept(dataDir: string): Promise<{ gateway: ServedGateway; refusal: string | undefined }> {
  const process = startProcess({
    env: { DATA_DIR: dataDir, GATEWAY_MASTER_KEY: 'process-test-key', ...environment(dataDir) },
  });
  const url = await process.listening.catch(() => undefined);
  if (url !== undefined) return { gateway: { url, process }, refusal: undefined };
  expect((await process.exited).code).toBe(1);
  const refusal = process.stderr;
  expect(refusal).toMatch(/(positions? \d+|segment \d{16}|durable|log\.json).*"chancery log accept-loss/s);
  const env = { DATA_DIR: dataDir, LOG_URL: environment(dataDir).LOG_URL };
  const listed = await chancery(folder.path, ['log', 'accept-loss', '--dry-run'], env);
  expect(listed).toMatchObject({ code: 1, stdout: expect.stringMatching(/would be (lost|made again)/) });
  const accepted = await chancery(folder.path, ['log', 'accept-loss', '--reason', 'an older copy'], env);
  expect(accepted, refusal).toMatchObject({ code: 0 });
  return { gateway: await start(dataDir), refusal };
}

/** The same log in a gateway that has no snapshots. */
async function figuresOfTheLog(dataDir: string): Promise<Record<string, string>> {
  const reference = join(folder.path, 'reference');
  rmSync(reference, { recursive: true, force: true });
  cpSync(dataDir, reference, { recursive: true });
  for (const name of readdirSync(reference)) if (name.startsWith('views.db')) rmSync(join(reference, name));
  const gateway = await start(reference);
  try {
    return await figures(gateway.url);
  } finally {
    await kill(gateway);
  }
}

/** The first that differ, from where they differ. */
function differences(shown: Record<string, string>, said: Record<string, string>): string {
  const other = Object.entries(shown).filter(([what, figure]) => figure !== said[what]);
  const lines = other.slice(0, 3).map(([what, figure]) => {
    const from = Math.max(0, [...figure].findIndex((character, at) => character !== said[what]?.[at]) - 60);
    return `${what}: ${figure.slice(from, from + 200)} instead of ${said[what]?.slice(from, from + 200)}`;
  });
  return lines.join('\n');
}

/** Every snapshot that the stopped gateway saved is the fold of the log. */
async function expectSnapshotsOfTheLog(dataDir: string): Promise<void> {
  const log = await ReadOnlyLog.open(join(dataDir, 'log'));
  const views = openViewStore(join(dataDir, 'views.db'));
  try {
    for (const view of savedViews) {
      const saved = views.load(view.name);
      if (saved === undefined) continue;
      const folded = await view.fold(log, { signal: AbortSignal.timeout(60_000) });
      expect({ view: view.name, state: deserialize(saved.state) }).toEqual({
        view: view.name,
        state: deserialize(folded?.state ?? serialize(null)),
      });
    }
  } finally {
    views.close();
    await log.close();
  }
}

/** A moment of a data folder: when it was copied, or killed. */
interface Moment {
  readonly name: string;
  readonly dir: string;
}

/** One life of the gateway under load, copied at random moments, and killed. */
async function live(generation: number, from: Moment | undefined): Promise<{ copies: Moment[]; killed: Moment }> {
  const dataDir = join(folder.path, `generation-${generation}`);
  mkdirSync(dataDir);
  if (from !== undefined) copyAll(from.dir, dataDir, chance);
  const { gateway } = from === undefined ? { gateway: await start(dataDir) } : await startOrAccept(dataDir);
  const { url } = gateway;
  if (from === undefined) {
    const pricing = { input_per_mtok: 1, output_per_mtok: 1_000 };
    await ask(url, '/admin/model-pricing-overrides', { method: 'PUT', json: { selector: 'llamacpp/m', pricing } });
    for (let team = 0; team < 4; team++) {
      await setBudget(url, `/team-${team}`, 1_000);
      const made = await ask(url, '/admin/auth-keys', { json: { name: `first-${team}`, user_path: `/team-${team}` } });
      keys.push(((await made.json()) as { value: string }).value);
    }
  }
  let over = false;
  const load = loadUntil(url, chance.fork(), () => over);
  const copies: Moment[] = [];
  for (let copy = 0; copy < 4; copy++) {
    // A time: the moment of a copy is random. Snapshots are saved every five seconds.
    await sleep(chance.between(200, 3_500));
    const name = `copy ${copy} of generation ${generation}`;
    copies.push({ name, dir: copyAll(dataDir, join(folder.path, `${generation}-${copy}`), chance) });
  }
  await kill(gateway);
  over = true;
  await load;
  return { copies, killed: { name: `the end of generation ${generation}`, dir: dataDir } };
}

async function round(what: string, views: Moment, log: Moment, random: Random): Promise<'refused' | 'opened'> {
  const dataDir = join(folder.path, 'data');
  rmSync(dataDir, { recursive: true, force: true });
  copyAll(log.dir, dataDir, random);
  for (const name of viewsFiles) rmSync(join(dataDir, name), { force: true });
  copyViews(views.dir, dataDir);
  const had = await eventsIn(dataDir);
  const { gateway, refusal } = await startOrAccept(dataDir);
  const shown = await figures(gateway.url);
  expect((await eventsIn(dataDir)).slice(0, had.length), `${what}: events of the copy`).toEqual(had);
  expect(differences(shown, await figuresOfTheLog(dataDir)), what).toBe('');
  const ends = performance.now() + random.between(50, 1_500);
  const load = loadUntil(gateway.url, random, () => performance.now() > ends);
  // A time: the moment of the kill is random.
  await sleep(random.between(50, 1_500));
  await kill(gateway);
  await load;

  const again = await start(dataDir);
  const shownAgain = await figures(again.url);
  again.process.kill('SIGTERM');
  expect((await again.process.exited).code, again.process.stderr).toBe(0);
  await expectSnapshotsOfTheLog(dataDir);
  expect(differences(shownAgain, await figuresOfTheLog(dataDir)), `${what}, killed and started again`).toBe('');
  return refusal === undefined ? 'opened' : 'refused';
}

it(
  `shows what the log says, or names what is missing, with copies from other moments (${rounds} rounds, seed ${seed})`,
  async () => {
    upstream = await provider.listen();
    const copies: Moment[] = [];
    const ends: Moment[] = [];
    const results: string[] = [];
    const failures: string[] = [];
    const any = (moments: readonly Moment[]) => moments[chance.between(0, moments.length - 1)] as Moment;
    for (let at = 0; at < rounds; at++) {
      if (at % 5 === 0 || ends.length < 2) {
        const from = ends.length === 0 ? undefined : chance.happens(0.5) ? ends.at(-1) : any(copies);
        const { copies: made, killed } = await live(ends.length, from);
        copies.push(...made);
        ends.push(killed);
      }
      const kind = chance.oneOf(['older snapshots', 'an older log', 'both']);
      const views = kind === 'an older log' ? any(ends) : any(copies);
      const log = kind === 'older snapshots' ? any(ends) : any(copies);
      const what = `round ${at}, ${kind}: snapshots of ${views.name}, log of ${log.name}`;
      const outcome = await round(what, views, log, chance.fork()).catch((error: unknown) => {
        failures.push(`${what}: ${error instanceof Error ? error.message.slice(0, 1_500) : String(error)}`);
        return 'failed';
      });
      results.push(`${what}: ${outcome}`);
      console.info(outcome === 'failed' ? failures.at(-1) : results.at(-1));
      killAll();
    }
    const count = (outcome: string) => results.filter((line) => line.endsWith(outcome)).length;
    console.info(
      `seed ${seed}: ${rounds} rounds, ${count('opened')} opened, ${count('refused')} refused, ${failures.length} failed`,
    );
    expect(failures).toEqual([]);
  },
  60_000 + rounds * 60_000,
);
