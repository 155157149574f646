/** The command line of `npm run bench`. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Rounds } from './sections/closed-loop.ts';
import { type Peer, readPeer } from './servers/peer.ts';
import { SUBJECTS, type SubjectKind } from './servers/subject-kinds.ts';
import { WORKS } from './work.ts';

export interface Options extends Rounds {
  /** Whether that part of the benchmark is wanted. */
  wants(name: string): boolean;
  /** Whether the command line names parts. */
  readonly choosesParts: boolean;
  /** Whether the options select less or something else than the whole benchmark. */
  readonly isPartial: boolean;
  readonly servers: readonly SubjectKind[];
  /** Whether the command line names them; default: those of each cell. */
  readonly choosesServers: boolean;
  /** Folders of other checkouts, by name. */
  readonly trees: ReadonlyMap<string, string>;
  /** Environment variables of those of `trees` that are this checkout with other settings, by name. */
  readonly settings: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly peers: readonly Peer[];
  /** Override those of each work. */
  readonly connections: readonly number[] | undefined;
  /** Warm-up before the first round of each server with a work. */
  readonly warmUpSeconds: number;
  /** The same with its first work. */
  readonly firstWarmUpSeconds: number;
  /** Whether processor profiles are taken, and nothing else. */
  readonly profile: boolean;
  /** Whether these are of half the load, and name what holds the event loop. */
  readonly stalls: boolean;
  /** Whether the processors of a virtual machine are kept from sleeping. */
  readonly awake: boolean;
  /** Whether rounds that others disturb are repeated, and wait for the disk. */
  readonly isQuiet: boolean;
  /** The `--json` of a whole run, of which the parts are measured again. */
  readonly again: string | undefined;
  /** A file for every figure. */
  readonly json: string | undefined;
}

const OTHER_PARTS = ['sustained', 'inside', 'log', 'start-up', 'admin-state', 'turns', 'tools'] as const;

/** Before each work. */
const WARM_UP_SECONDS = 4;
/** A gateway under its first load needs 6 to 10 s of one processor until V8 has compiled its code; `bare` needs 2. */
const FIRST_WARM_UP_SECONDS = 10;

/** With fewer rounds there is no result. */
const LEAST_ROUNDS = 5;

/** Writes the error to standard error and ends the process with code 2. */
export function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    allowNegative: true,
    options: {
      /** Names of works and of other parts, separated by commas. */
      only: { type: 'string' },
      servers: { type: 'string' },
      connections: { type: 'string' },
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '1' },
      'warm-up': { type: 'string' },
      /** `name=folder`, repeatable. */
      gateway: { type: 'string', multiple: true, default: [] },
      /** `name=VARIABLE=value`, repeatable, also for one name: this checkout with these settings. */
      setting: { type: 'string', multiple: true, default: [] },
      /** A file such as those in peers/, repeatable. */
      peer: { type: 'string', multiple: true, default: [] },
      profile: { type: 'boolean', default: false },
      stalls: { type: 'boolean', default: false },
      awake: { type: 'boolean', default: true },
      again: { type: 'string' },
      json: { type: 'string' },
    },
  });
  const parts = [...WORKS.map(({ name }) => name), ...OTHER_PARTS];
  const only = values.only === undefined ? undefined : listOf('--only', values.only, parts);
  const servers = values.servers === undefined ? SUBJECTS : listOf('--servers', values.servers, SUBJECTS);
  const rounds = positive('--rounds', values.rounds);
  const settings = settingsOf(values.setting);
  const others = [...settings.keys()].map((name) => [name, process.cwd()] as const);
  return {
    wants: (name) => only === undefined || only.includes(name),
    choosesParts: only !== undefined,
    isPartial:
      [values.only, values.servers, values.connections].some((given) => given !== undefined) ||
      values.gateway.length + values.setting.length > 0 ||
      rounds < LEAST_ROUNDS,
    servers,
    choosesServers: values.servers !== undefined,
    trees: new Map([...values.gateway.map(treeOf), ...others]),
    settings,
    peers: values.peer.map((file) => readPeer(resolve(file))),
    connections: values.connections?.split(',').map((each) => positive('--connections', each)),
    rounds,
    seconds: positive('--seconds', values.seconds),
    warmUpSeconds: Number(values['warm-up'] ?? WARM_UP_SECONDS),
    firstWarmUpSeconds: Number(values['warm-up'] ?? FIRST_WARM_UP_SECONDS),
    profile: values.profile || values.stalls,
    stalls: values.stalls,
    awake: values.awake,
    isQuiet: only === undefined || values.again !== undefined,
    again: values.again,
    json: values.json,
  };
}

function positive(option: string, given: string): number {
  const value = Number(given);
  return value > 0 ? value : refuse(`${option}: ${given} is not a number above 0`);
}

function listOf<T extends string>(option: string, given: string, known: readonly T[]): T[] {
  const names = given.split(',');
  const found = known.filter((name) => names.includes(name));
  const unknown = names.filter((name) => !known.some((one) => one === name));
  if (unknown.length > 0) refuse(`${option}: unknown ${unknown.join(', ')}; known are ${known.join(', ')}`);
  return found;
}

function treeOf(given: string): [string, string] {
  const at = given.indexOf('=');
  if (at < 1) refuse(`--gateway: ${given} is not name=folder`);
  return [given.slice(0, at), resolve(given.slice(at + 1))];
}

function settingsOf(given: readonly string[]): Map<string, Record<string, string>> {
  const settings = new Map<string, Record<string, string>>();
  for (const each of given) {
    const { name, variable, value } = /^(?<name>[^=]+)=(?<variable>\w+)=(?<value>.*)$/.exec(each)?.groups ?? {};
    if (name === undefined || variable === undefined || value === undefined)
      refuse(`--setting: ${each} is not name=VARIABLE=value`);
    settings.set(name, { ...settings.get(name), [variable]: value });
  }
  return settings;
}

function refuse(problem: string): never {
  console.error(problem);
  process.exit(2);
}
