/** `chancery log backup`: exits with 0 when the backup is complete and on disk, 1 when it is not. */
import path from 'node:path';
import { backupLog, type LogBackup } from '../events/embedded/backup/backup-log.ts';
import { isFolderWithin } from '../events/embedded/backup/folders-apart.ts';
import { formatPosition } from '../events/event.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { configInForce } from './config-in-force.ts';
import { logDirectoryOf } from './log-directory.ts';
import { folderFrom } from './log-folder.ts';
import type { ProgramParts } from './program-parts.ts';
import { progressOn } from './progress.ts';
import { bytes, count } from './quantity.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

export async function logBackup(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const folders = await foldersOf(args, parts, terminal);
  if (folders === undefined) return 1;
  const { source, target } = folders;
  const progress = progressOn(terminal);
  const began = performance.now();
  try {
    const backup = await backupLog(source, target, {
      quick: args.switches.has('quick'),
      signal: terminal.signal,
      onProgress: (copied) => progress.show(() => `${copied.segment}: ${bytes(copied.bytes)}`),
    });
    progress.clear();
    const seconds = (performance.now() - began) / 1000;
    if (args.switches.has('json'))
      await writeLine(terminal, JSON.stringify(backupJson(source, target, backup, seconds)));
    else await report(source, target, backup, seconds, terminal);
    return 0;
  } catch (error) {
    progress.clear();
    if (!(error instanceof Error)) throw error;
    const why = terminal.signal.aborted ? 'stopped before the end' : error.message;
    complain(terminal, `the backup in ${path.resolve(target)} is not complete: ${why}`);
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

async function report(
  from: string,
  to: string,
  { last, before, segments, copiedSegments, copiedBytes, repaired }: LogBackup,
  seconds: number,
  terminal: Terminal,
): Promise<void> {
  const since = before === undefined ? '' : `, ${formatPosition(before)} before`;
  await writeLine(terminal, `backed up ${from} to ${to}: up to position ${formatPosition(last)}${since}`);
  const copied = `${count(copiedSegments, 'segment')} of ${segments.toLocaleString('en')}, ${bytes(copiedBytes)}`;
  await writeLine(terminal, `copied ${copied} in ${seconds.toFixed(1)} s`);
  for (const name of repaired) await writeLine(terminal, `was damaged in the backup and copied again: ${name}`);
}
