/** Files in the folder of a log that say who may write it: only the one that feeds it. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { LogIsReplica, LogIsUnfinishedCopy } from './log-errors.ts';
import { replicaFile } from './replica-file.ts';

/** In the folder of a log that `chancery log copy` has begun and not completed. */
export const copyFile = 'copying.json';

export interface FolderUse {
  /** By a log on an engine, which feeds its replica. */
  readonly replica?: boolean;
  /** By a copy. */
  readonly copying?: boolean;
}

/** @throws LogIsReplica, LogIsUnfinishedCopy */
export function checkFolderUse(dir: string, { replica = false, copying = false }: FolderUse): void {
  if (!replica && existsSync(path.join(dir, replicaFile))) throw new LogIsReplica(dir);
  if (!copying && existsSync(path.join(dir, copyFile))) throw new LogIsUnfinishedCopy(dir);
}
