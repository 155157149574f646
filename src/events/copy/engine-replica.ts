/** The replica of a log on an engine that is copied, or a copy: as large as the log. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ReplicatedLog } from '../replicated/replicated-log.ts';
import { parsePosition } from '../sequence-position.ts';
import type { CopyOptions, LogCopyProgress, LogOnEngine } from './copy-place.ts';

export interface EngineReplica {
  /** Has been read to its end. */
  readonly log: ReplicatedLog;
  readonly folder: string;
  /** Removes a temporary folder. The log has been closed before. */
  remove(): Promise<void>;
}

/** Reading to the end includes an append without events. @throws as `ReplicatedLog.open` */
export async function openEngineReplica(
  place: LogOnEngine,
  step: LogCopyProgress['step'],
  { onDelay, onProgress, signal }: CopyOptions,
): Promise<EngineReplica> {
  const folder = place.replica ?? (await mkdtemp(path.join(tmpdir(), 'chancery-copy-')));
  const remove = async () => {
    if (place.replica === undefined) await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  try {
    const log = await ReplicatedLog.open({
      engine: await place.engine(),
      dir: folder,
      signal,
      ...(onDelay && { onDelay }),
      onProgress: (position) => onProgress?.({ step, position: parsePosition(position) }),
    });
    return { log, folder, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}
