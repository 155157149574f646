/** Measures every part, one after the other. */

import { probing } from './inside/probed.ts';
import { startLoadProcess } from './load/load-process.ts';
import type { Options } from './options.ts';
import { type AdminState, measureAdminState } from './sections/admin-state.ts';
import { type Cell, measureCell, type Rounds, warmUp } from './sections/closed-loop.ts';
import { type Inside, measureInside } from './sections/inside.ts';
import { benchLog, type LogBench } from './sections/log.ts';
import { type ProcessMemory, watchMemory } from './sections/memory.ts';
import type { Stand } from './sections/round.ts';
import { measureStartUp, type StartUp } from './sections/start-up.ts';
import { measureSustained, type Sustained } from './sections/sustained.ts';
import { measureTools, type Tools } from './sections/tools.ts';
import { measureTurns, type Turns } from './sections/turns.ts';
import { keepAwake } from './servers/awake.ts';
import { cores } from './servers/cores.ts';
import { QuietDisk } from './servers/disk.ts';
import { startSubjects } from './servers/start-subjects.ts';
import type { Subject } from './servers/subject.ts';
import type { SubjectKind } from './servers/subject-kinds.ts';
import { startUpstreams, type Upstreams } from './upstream/start-upstreams.ts';
import { WORKS, type Work } from './work.ts';

export interface Results {
  /** Software of the upstream without delays. */
  readonly instant: Upstreams['instant'];
  /** Whether the processors were kept from sleeping. */
  readonly awake: boolean;
  readonly cells: readonly Cell[];
  readonly sustained: readonly Sustained[];
  readonly inside: readonly Inside[];
  readonly memory: readonly ProcessMemory[];
  readonly log: LogBench | null;
  readonly startUp: StartUp | null;
  readonly adminState: AdminState | null;
  readonly turns: Turns | null;
  readonly tools: Tools | null;
}

/** Called with each result as it comes. */
export interface Progress {
  cell(cell: Cell): void;
  sustained(sustained: Sustained): void;
  inside(inside: Inside): void;
  turns(turns: Turns): void;
  tools(tools: Tools): void;
}

/** In a whole run, for a disk that others use. */
const DISK_PATIENCE_MS = 10 * 60_000;

const EVENTS_AT_START = 1_000_000;
const SUSTAINED_KINDS: readonly SubjectKind[] = ['bare', 'gateway', 'shipped'];
const SUSTAINED_SECONDS = 2;
const INSIDE_KINDS: readonly SubjectKind[] = ['bare', 'gateway', 'shipped', 'governed'];
const INSIDE_WORKS = ['chat-json', 'chat-sse'];
const INSIDE_SECONDS = 2;

export async function measureAll(options: Options, workDir: string, progress: Progress): Promise<Results> {
  const awake = options.awake ? keepAwake() : undefined;
  // The log comes first and alone, while nothing else uses the processor.
  const log = options.wants('log') ? await benchLog({ dir: workDir }) : null;
  const upstreams = await startUpstreams();
  const disk = options.isQuiet ? new QuietDisk(workDir, DISK_PATIENCE_MS) : undefined;
  const load = startLoadProcess(cores.rest);
  const part: Part = { options, workDir, upstreams, stand: { load, awake, disk }, progress };
  const upstream = `${upstreams.servers.instant.origin}/json/v1`;
  try {
    const startUp = options.wants('start-up') ? await measureStartUp(workDir, upstream, EVENTS_AT_START) : null;
    const adminState = options.wants('admin-state') ? await measureAdminState(workDir, upstream) : null;
    const streams = `${upstreams.servers.instant.origin}/sse/v1`;
    const turns = options.wants('turns') ? await measureTurns(workDir, streams) : null;
    if (turns !== null) progress.turns(turns);
    const tools = options.wants('tools') ? await measureTools(workDir) : null;
    if (tools !== null) progress.tools(tools);
    const side = await measureSideBySide(part);
    const inside = options.wants('inside') ? await lookInside(part) : [];
    const others = { inside, log, startUp, adminState, turns, tools };
    return { instant: upstreams.instant, awake: awake !== undefined, ...side, ...others };
  } finally {
    load.stop();
    awake?.stop();
    await upstreams.stop();
  }
}

interface Part {
  readonly options: Options;
  readonly workDir: string;
  readonly upstreams: Upstreams;
  readonly stand: Stand;
  readonly progress: Progress;
}

async function measureSideBySide({ options, workDir, upstreams, stand, progress }: Part) {
  const works = WORKS.filter(({ name }) => options.wants(name));
  const cells: Cell[] = [];
  const sustained: Sustained[] = [];
  if (works.length === 0 && !options.wants('sustained')) return { cells, sustained, memory: [] };
  const subjects = await startSubjects({
    ...options,
    kinds: options.servers,
    workDir,
    upstreams,
    env: (name) => options.settings.get(name.split('@')[1] ?? '') ?? {},
  });
  try {
    const memory = await watchMemory(subjects.all, !options.choosesParts);
    const warmed = new Set<Subject>();
    for (const work of works) {
      const planned = cellsOf(work, options);
      const present = (kinds: readonly SubjectKind[]) => subjects.all.filter((each) => takesPart(each, work, kinds));
      const some = present(planned.flatMap(({ servers }) => servers));
      const [warm, cold] = [some.filter((each) => warmed.has(each)), some.filter((each) => !warmed.has(each))];
      await warmUp(stand, work, cold, options.firstWarmUpSeconds);
      await warmUp(stand, work, warm, options.warmUpSeconds);
      for (const each of cold) warmed.add(each);
      for (const { connections, servers } of planned) {
        const cell = await measureCell(stand, work, connections, present(servers), roundsOf(work, options));
        cells.push(cell);
        progress.cell(cell);
      }
    }
    if (options.wants('sustained')) {
      for (const subject of subjects.all.filter(({ kind }) => kind === 'peer' || SUSTAINED_KINDS.includes(kind))) {
        if (subject.subjectRequest('timed') === undefined) continue;
        const found = await measureSustained(stand, subject, SUSTAINED_SECONDS);
        sustained.push(found);
        progress.sustained(found);
      }
    }
    return { cells, sustained, memory: memory() };
  } finally {
    await subjects.stop();
  }
}

/** The cells to measure: the command line's options override those of a full run. */
function cellsOf(work: Work, { connections, servers, choosesServers }: Options): Work['cells'] {
  const counts = connections ?? work.cells.map((cell) => cell.connections);
  return counts.map((count) => ({
    connections: count,
    servers: choosesServers ? servers : (work.cells.find((cell) => cell.connections === count)?.servers ?? servers),
  }));
}

function roundsOf({ mostRounds }: Work, { rounds, seconds, choosesParts, isQuiet }: Options): Rounds {
  return {
    rounds: choosesParts ? rounds : Math.min(rounds, mostRounds ?? rounds),
    seconds,
    repeatsDisturbed: isQuiet,
  };
}

function takesPart(subject: Subject, work: Work, kinds: readonly SubjectKind[]): boolean {
  return (
    (subject.kind === 'peer' || kinds.includes(subject.kind)) && subject.subjectRequest(work.upstream) !== undefined
  );
}

async function lookInside({ options, workDir, upstreams, stand, progress }: Part): Promise<Inside[]> {
  const found: Inside[] = [];
  const kinds = INSIDE_KINDS.filter((kind) => options.servers.includes(kind));
  const subjects = await startSubjects({
    kinds,
    trees: options.trees,
    workDir,
    upstreams,
    ...probing('garbage', workDir),
  });
  try {
    for (const work of WORKS.filter(({ name }) => INSIDE_WORKS.includes(name))) {
      for (const subject of subjects.all) {
        const inside = await measureInside(stand, subject, work, workDir, INSIDE_SECONDS);
        found.push(inside);
        progress.inside(inside);
      }
    }
  } finally {
    await subjects.stop();
  }
  return found;
}
