/** A data folder whose log is missing is no new one: a volume may not be mounted. */
import { existsSync } from 'node:fs';
import { nodeDisk } from '../../events/embedded/disk.ts';
import { identityFile } from '../../events/embedded/identity.ts';
import { segmentsIn } from '../../events/embedded/segment.ts';
import { directoryOf } from '../../events/open-log.ts';
import { removeViews, viewsFile } from '../../projections/view-store.ts';

/**
 * To be called before a log in files is opened for writing. A replica may be missing: it is made again from its engine.
 * @throws Error when there is no log, although the data folder has projections that were built from one
 */
export function refuseMissingLog({ dataDir, url }: { readonly dataDir: string; readonly url: string }): void {
  if (!url.startsWith('file:')) return;
  const dir = directoryOf(url);
  const views = viewsFile(dataDir);
  if (!existsSync(views) || hasLog(dir)) return;
  throw new Error(
    `there is no event log in ${dir}, but ${views} was built from one. Make sure that its volume is mounted, or restore ` +
      `a backup; to begin a new, empty log, remove ${views}`,
  );
}

/**
 * To be called before a replica is opened. One that is made anew may differ from the one before, which was moved away because
 * it did not have what its engine has: projections that were built from that one are removed.
 */
export function removeViewsOfMissingReplica(parts: { readonly dataDir: string; readonly folder: string }): void {
  if (!hasLog(parts.folder)) removeViews(parts.dataDir);
}

/** Whether there is a part of one, of which the opening finds out whether it is complete. */
function hasLog(dir: string): boolean {
  if (!existsSync(dir)) return false;
  const names = nodeDisk.list(dir);
  return names.includes(identityFile) || segmentsIn(names).size > 0;
}
