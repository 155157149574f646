/** The command line of `npm run bench`. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Rounds } from './sections/closed-loop.ts';
import { SUBJECTS, type SubjectKind } from './servers/start-subjects.ts';
import { WORKS } from './work.ts';

export interface Options extends Rounds {
  /** Whether that part of the benchmark is wanted. */
  wants(name: string): boolean;
  /** Whether only a part is wanted. */
  readonly isPartial: boolean;
  readonly servers: readonly SubjectKind[];
  /** Folders of other checkouts, by name. */
  readonly trees: ReadonlyMap<string, string>;
  /** In the place of each work's own. */
  readonly connections: readonly number[] | undefined;
  /** Whether the processors of a virtual machine are kept from sleeping. */
  readonly awake: boolean;
  /** A file for every figure. */
  readonly json: string | undefined;
}

export const OTHER_PARTS = ['log', 'start-up', 'admin-state'] as const;

/** Writes what is wrong to standard error and ends the process with code 2. */
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
      seconds: { type: 'string', default: '2' },
      'warm-up': { type: 'string', default: '2' },
      /** `name=folder`, repeatable. */
      gateway: { type: 'string', multiple: true, default: [] },
      awake: { type: 'boolean', default: true },
      json: { type: 'string' },
    },
  });
  const parts = [...WORKS.map(({ name }) => name), ...OTHER_PARTS];
  const only = values.only === undefined ? undefined : listOf('--only', values.only, parts);
  const servers = values.servers === undefined ? SUBJECTS : listOf('--servers', values.servers, SUBJECTS);
  return {
    wants: (name) => only === undefined || only.includes(name),
    isPartial: only !== undefined || values.servers !== undefined || values.connections !== undefined,
    servers,
    trees: new Map(values.gateway.map(treeOf)),
    connections: values.connections?.split(',').map(Number),
    rounds: Number(values.rounds),
    seconds: Number(values.seconds),
    warmUpSeconds: Number(values['warm-up']),
    awake: values.awake,
    json: values.json,
  };
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

function refuse(problem: string): never {
  console.error(problem);
  process.exit(2);
}
