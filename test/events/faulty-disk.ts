/** The real disk, of which each operation can be made to fail. */
import { rmSync } from 'node:fs';
import { type Disk, nodeDisk } from '../../src/events/embedded/disk.ts';

export interface FaultyDisk extends Disk {
  /** While set, writing fails with this code after `writtenBytes` of the call's bytes have been written. */
  failWrites(code: string | undefined, writtenBytes?: number): void;
  failTruncates(code: string | undefined): void;
  /** While set, a sync fails with this code. */
  failSyncs(code: string | undefined): void;
  failCreations(code: string | undefined): void;
  /** Holds every sync back until `releaseSyncs`. */
  holdSyncs(): void;
  releaseSyncs(): void;
  /** How many syncs are held back. */
  readonly heldSyncs: number;
  /** Called before each operation that changes a file's name or size: throws to play a crash there. */
  beforeChange: (operation: string) => void;
}

function failure(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: injected`), { code });
}

export function faultyDisk(): FaultyDisk {
  let writes: { code: string; writtenBytes: number } | undefined;
  let truncates: string | undefined;
  let syncs: string | undefined;
  let creations: string | undefined;
  let held: (() => void)[] | undefined;
  const disk: FaultyDisk = {
    ...nodeDisk,
    beforeChange: () => {},
    failWrites: (code, writtenBytes = 0) => {
      writes = code === undefined ? undefined : { code, writtenBytes };
    },
    failTruncates: (code) => {
      truncates = code;
    },
    failSyncs: (code) => {
      syncs = code;
    },
    failCreations: (code) => {
      creations = code;
    },
    holdSyncs: () => {
      held ??= [];
    },
    releaseSyncs: () => {
      const waiting = held ?? [];
      held = undefined;
      for (const go of waiting) go();
    },
    get heldSyncs() {
      return held?.length ?? 0;
    },
    open: (file, mode) => {
      if (mode === 'create') {
        if (creations !== undefined) throw failure(creations);
        disk.beforeChange('create');
      }
      return nodeDisk.open(file, mode);
    },
    write: (fd, buffer, offset, length, position) => {
      disk.beforeChange('write');
      if (writes === undefined) return nodeDisk.write(fd, buffer, offset, length, position);
      const fitting = Math.min(writes.writtenBytes, length);
      if (fitting === 0) throw failure(writes.code);
      writes = { code: writes.code, writtenBytes: writes.writtenBytes - fitting };
      return nodeDisk.write(fd, buffer, offset, fitting, position);
    },
    truncate: (fd, length) => {
      disk.beforeChange('truncate');
      if (truncates !== undefined) throw failure(truncates);
      nodeDisk.truncate(fd, length);
    },
    datasync: (fd, done) => {
      const go = () => {
        if (syncs !== undefined) setImmediate(() => done(failure(syncs ?? 'EIO')));
        else nodeDisk.datasync(fd, done);
      };
      if (held === undefined) go();
      else held.push(go);
    },
    rename: (from, to) => {
      disk.beforeChange('rename');
      nodeDisk.rename(from, to);
    },
    remove: (file) => {
      disk.beforeChange('remove');
      nodeDisk.remove(file);
    },
  };
  // at once, so that a test which copies the folder never does so in the middle of it
  disk.removeLater = async (file) => {
    disk.beforeChange('remove');
    rmSync(file, { force: true });
  };
  return disk;
}
