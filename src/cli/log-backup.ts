/**
 * `chancery log backup`, `log restore` and `log copy`: each exits with 0 when its result is complete, 1 when it is
 * not.
 */

import { rmSync } from 'node:fs';
import path from 'node:path';
import { namedEngineAccess } from '../config/log-settings.ts';
import { engineUrl, maskLogUrl } from '../config/mask.ts';
import { describeProblem } from '../config/problem.ts';
import { copyLog, type LogCopy } from '../events/copy/copy-log.ts';
import type { CopyPlace } from '../events/copy/stored-records.ts';
import { backupLog, type LogBackup } from '../events/embedded/backup/backup-log.ts';
import { isFolderWithin } from '../events/embedded/backup/backup-note.ts';
import { type RestoredLog, restoreLog } from '../events/embedded/backup/restore-log.ts';
import { formatPosition } from '../events/event.ts';
import { directoryOf } from '../events/open-log.ts';
import { createEngine } from '../events/open-replicated-log.ts';
import { viewsFile } from '../projections/view-store.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { configInForce, folderFrom, logDirectoryOf, type ProgramParts } from './program-parts.ts';
import { bytes, complain, count, type Progress, progressOn, type Terminal, writeLine } from './terminal.ts';

export async function logBackup(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const folders = await foldersOf(args, parts, terminal);
  if (folders === undefined) return 1;
  const { source, target } = folders;
  return transfer(args, terminal, {
    work: (show) =>
      backupLog(source, target, {
        quick: args.switches.has('quick'),
        signal: terminal.signal,
        onProgress: (copied) => show(() => `${copied.segment}: ${bytes(copied.bytes)}`),
      }),
    json: (backup, seconds) => backupJson(source, target, backup, seconds),
    lines: (backup, seconds) => backupLines(source, target, backup, seconds),
    failed: (why) => `the backup in ${path.resolve(target)} is not complete: ${why}`,
  });
}

interface Transfer<Result> {
  work(show: Progress['show']): Promise<Result>;
  json(result: Result, seconds: number): object;
  lines(result: Result, seconds: number): readonly string[];
  /** Why an interrupted transfer failed. */
  readonly stopped?: string;
  failed(why: string): string;
}

/** Shows the progress of the work, and then prints its result, with `--json` as JSON. */
async function transfer<Result>(
  { switches }: ParsedArguments,
  terminal: Terminal,
  { work, json, lines, stopped = 'stopped before the end', failed }: Transfer<Result>,
): Promise<number> {
  const progress = progressOn(terminal);
  const began = performance.now();
  try {
    const result = await work(progress.show).finally(progress.clear);
    const seconds = (performance.now() - began) / 1000;
    const shown = switches.has('json') ? [JSON.stringify(json(result, seconds))] : lines(result, seconds);
    for (const line of shown) await writeLine(terminal, line);
    return 0;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    complain(terminal, failed(terminal.signal.aborted ? stopped : error.message));
    return 1;
  }
}

/** The folder of the log and that of the backup. Prints what is wrong with them. */
async function foldersOf(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
): Promise<{ source: string; target: string } | undefined> {
  const { to, from } = args.values;
  if (to === undefined) throw new UsageError('--to FOLDER is required');
  const target = folderFrom(to, parts);
  if (from !== undefined) return { source: folderFrom(from, parts), target };
  const source = await logDirectoryOf(args, parts, terminal);
  if (source === undefined) return undefined;
  const dataDir = (await configInForce(args, parts, terminal))?.dataDir;
  if (dataDir === undefined || !isFolderWithin(target, dataDir)) return { source, target };
  complain(terminal, `${target} is in the data folder ${dataDir}, with which it could be lost; use another folder`);
  return undefined;
}

function backupJson(from: string, to: string, backup: LogBackup, seconds: number): object {
  const { last, before, replica, ...rest } = backup;
  return {
    from,
    to,
    ...rest,
    position: formatPosition(last),
    before: before === undefined ? undefined : formatPosition(before),
    replica: replica === undefined ? undefined : formatPosition(replica),
    seconds,
  };
}

function backupLines(
  from: string,
  to: string,
  { last, before, segments, copiedSegments, copiedBytes, repaired }: LogBackup,
  seconds: number,
): string[] {
  const since = before === undefined ? '' : `, ${formatPosition(before)} before`;
  const copied = `${count(copiedSegments, 'segment')} of ${segments.toLocaleString('en')}, ${bytes(copiedBytes)}`;
  return [
    `backed up ${from} to ${to}: up to position ${formatPosition(last)}${since}`,
    `copied ${copied} in ${seconds.toFixed(1)} s`,
    ...repaired.map((name) => `was damaged in the backup and copied again: ${name}`),
  ];
}

/** `chancery log restore`: exits with 0 when the log is in its place and on disk, 1 when nothing was restored. */
export async function logRestore(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const { from, to } = args.values;
  if (from === undefined) throw new UsageError('--from FOLDER is required');
  const source = folderFrom(from, parts);
  const place = to === undefined ? await configuredPlace(args, parts, terminal) : { log: folderFrom(to, parts) };
  if (place === undefined) return 1;
  const { log, views } = place;
  return transfer(args, terminal, {
    async work(show) {
      const restored = await restoreLog(source, log, {
        signal: terminal.signal,
        onCheck: (read) => show(() => `checking ${read.segment}: ${count(read.events, 'event')}`),
        onProgress: (copied) => show(() => `copying ${copied.segment}: ${bytes(copied.bytes)}`),
      });
      if (views !== undefined) removeViews(views);
      return restored;
    },
    json: ({ last, ...rest }, seconds) => ({
      ...{ from: source, to: log, ...rest },
      position: formatPosition(last),
      seconds,
    }),
    lines: (restored, seconds) => [restoredText(source, log, restored, seconds)],
    failed: (why) => `nothing was restored: ${why}`,
  });
}

interface RestorePlace {
  readonly log: string;
  /** The snapshots of the projections of the log that was there: of other events. */
  readonly views?: string;
}

async function configuredPlace(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
): Promise<RestorePlace | undefined> {
  const config = await configInForce(args, parts, terminal);
  if (config === undefined) return undefined;
  const { readUrl } = config.log;
  if (readUrl.startsWith('file:')) {
    return { log: path.resolve(directoryOf(readUrl)), views: viewsFile(config.dataDir) };
  }
  complain(terminal, 'this command requires a log in files (file:…), or --to FOLDER');
  return undefined;
}

function removeViews(file: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true });
}

function restoredText(from: string, to: string, restored: RestoredLog, seconds: number): string {
  const { events, streams, segments, copiedBytes, last } = restored;
  const what = `${count(events, 'event')} in ${count(streams, 'stream')}, up to position ${formatPosition(last)}`;
  const size = `${bytes(copiedBytes)} in ${count(segments, 'segment')}`;
  return `restored ${from} to ${to}: ${what}; ${size}, in ${seconds.toFixed(1)} s`;
}

/** `chancery log copy`: exits with 0 when the copy is complete and was verified, 1 when it is not. */
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
  let delayed = '';
  return transfer(args, terminal, {
    work: (show) =>
      copyLog(source.place, target.place, {
        signal: terminal.signal,
        onProgress: ({ step, position }) => show(() => `${step}: position ${formatPosition(position)}`),
        onDelay: (reason) => {
          if (reason !== delayed) complain(terminal, `waiting: ${reason}`);
          delayed = reason;
        },
      }),
    json: (copy, seconds) => copyJson(source.name, target.name, copy, seconds),
    lines: (copy, seconds) => copyLines(source.name, target.name, copy, seconds),
    stopped: 'stopped before the end; the same command continues it',
    failed: (why) => `the copy in ${target.name} is not complete: ${why}`,
  });
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

function copyJson(from: string, to: string, { last, before, sha256 }: LogCopy, seconds: number): object {
  const position = formatPosition(last);
  return { from, to, position, before: formatPosition(before), copied: last - before, sha256, seconds };
}

function copyLines(from: string, to: string, { last, before, sha256 }: LogCopy, seconds: number): string[] {
  const since = before === 0 ? '' : `, ${formatPosition(before)} before`;
  return [
    `copied ${from} to ${to}: up to position ${formatPosition(last)}${since}`,
    `${count(last - before, 'event')} in ${seconds.toFixed(1)} s; read back and equal`,
    `sha256 of all records: ${sha256}`,
  ];
}
