/** `chancery log copy`: exits with 0 when the copy is complete and was verified, 1 when it is not. */

import { namedEngineAccess } from '../config/engine-access.ts';
import { engineUrl } from '../config/engine-address.ts';
import { maskLogUrl } from '../config/mask.ts';
import { describeProblem } from '../config/problem.ts';
import { copyLog, type LogCopy } from '../events/copy/copy-log.ts';
import type { CopyPlace } from '../events/copy/copy-place.ts';
import { formatPosition } from '../events/event.ts';
import { createEngine } from '../events/open-replicated-log.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { folderFrom } from './log-folder.ts';
import type { ProgramParts } from './program-parts.ts';
import { progressOn } from './progress.ts';
import { count } from './quantity.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

interface NamedPlace {
  readonly place: CopyPlace;
  /** Without a password. */
  readonly name: string;
}

export async function logCopy(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const { from, to, fromReplica, toReplica } = args.values;
  if (from === undefined) throw new UsageError('--from FOLDER or URL is required');
  if (to === undefined) throw new UsageError('--to FOLDER or URL is required');
  const source = placeOf({ flag: '--from', typed: from, replica: fromReplica, prefix: 'LOG_FROM_' }, parts, terminal);
  const target = placeOf({ flag: '--to', typed: to, replica: toReplica, prefix: 'LOG_' }, parts, terminal);
  if (source === undefined || target === undefined) return 1;
  const progress = progressOn(terminal);
  const began = performance.now();
  let delayed = '';
  try {
    const copy = await copyLog(source.place, target.place, {
      signal: terminal.signal,
      onProgress: ({ step, position }) => progress.show(() => `${step}: position ${formatPosition(position)}`),
      onDelay: (reason) => {
        if (reason !== delayed) complain(terminal, `waiting: ${reason}`);
        delayed = reason;
      },
    });
    progress.clear();
    const seconds = (performance.now() - began) / 1000;
    if (args.switches.has('json')) await writeLine(terminal, copyJson(source.name, target.name, copy, seconds));
    else await report(source.name, target.name, copy, seconds, terminal);
    return 0;
  } catch (error) {
    progress.clear();
    if (!(error instanceof Error)) throw error;
    const why = terminal.signal.aborted ? 'stopped before the end; the same command continues it' : error.message;
    complain(terminal, `the copy in ${target.name} is not complete: ${why}`);
    return 1;
  }
}

interface TypedPlace {
  readonly flag: string;
  readonly typed: string;
  readonly replica: string | undefined;
  /** Of the variables with user, password and TLS. */
  readonly prefix: string;
}

function placeOf(
  { flag, typed, replica, prefix }: TypedPlace,
  parts: ProgramParts,
  terminal: Terminal,
): NamedPlace | undefined {
  if (!engineUrl.test(typed)) {
    if (/^[a-z+]+:\/\//.test(typed) && !typed.startsWith('file:')) {
      throw new UsageError(`${flag}: expected a folder, kafka://… or esdb://…`);
    }
    if (replica !== undefined) throw new UsageError(`${flag}-replica is for a log on an engine`);
    const folder = folderFrom(typed, parts);
    return { place: { folder }, name: folder };
  }
  const { env, cwd } = parts;
  const access = namedEngineAccess({ flag, url: typed, prefix, env, cwd });
  if (!('url' in access)) {
    for (const problem of access) complain(terminal, describeProblem(problem));
    return undefined;
  }
  const folder = replica === undefined ? undefined : folderFrom(replica, parts);
  return { place: { engine: () => createEngine(access), replica: folder }, name: maskLogUrl(access.url) };
}

function copyJson(from: string, to: string, { last, before, sha256 }: LogCopy, seconds: number): string {
  const position = formatPosition(last);
  return JSON.stringify({ from, to, position, before: formatPosition(before), copied: last - before, sha256, seconds });
}

async function report(
  from: string,
  to: string,
  { last, before, sha256 }: LogCopy,
  seconds: number,
  terminal: Terminal,
): Promise<void> {
  const since = before === 0 ? '' : `, ${formatPosition(before)} before`;
  await writeLine(terminal, `copied ${from} to ${to}: up to position ${formatPosition(last)}${since}`);
  await writeLine(terminal, `${count(last - before, 'event')} in ${seconds.toFixed(1)} s; read back and equal`);
  await writeLine(terminal, `sha256 of all records: ${sha256}`);
}
