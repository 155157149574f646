/** `chancery log restore`: exits with 0 when the log is in its place and on disk, 1 when nothing was restored. */
import { rmSync } from 'node:fs';
import path from 'node:path';
import { type RestoredLog, restoreLog } from '../events/embedded/backup/restore-log.ts';
import { formatPosition } from '../events/event.ts';
import { directoryOf } from '../events/open-log.ts';
import { viewsFile } from '../projections/view-store.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { configInForce } from './config-in-force.ts';
import { folderFrom } from './log-folder.ts';
import type { ProgramParts } from './program-parts.ts';
import { progressOn } from './progress.ts';
import { bytes, count } from './quantity.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

export async function logRestore(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const { from, to } = args.values;
  if (from === undefined) throw new UsageError('--from FOLDER is required');
  const source = folderFrom(from, parts);
  const place = to === undefined ? await configuredPlace(args, parts, terminal) : { log: folderFrom(to, parts) };
  if (place === undefined) return 1;
  const progress = progressOn(terminal);
  const began = performance.now();
  try {
    const restored = await restoreLog(source, place.log, {
      signal: terminal.signal,
      onCheck: (read) => progress.show(() => `checking ${read.segment}: ${count(read.events, 'event')}`),
      onProgress: (copied) => progress.show(() => `copying ${copied.segment}: ${bytes(copied.bytes)}`),
    });
    progress.clear();
    if (place.views !== undefined) removeViews(place.views);
    const seconds = (performance.now() - began) / 1000;
    const { last, ...rest } = restored;
    const json = { from: source, to: place.log, ...rest, position: formatPosition(last), seconds };
    if (args.switches.has('json')) await writeLine(terminal, JSON.stringify(json));
    else await writeLine(terminal, restoredText(source, place.log, restored, seconds));
    return 0;
  } catch (error) {
    progress.clear();
    if (!(error instanceof Error)) throw error;
    const why = terminal.signal.aborted ? 'stopped before the end' : error.message;
    complain(terminal, `nothing was restored: ${why}`);
    return 1;
  }
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
