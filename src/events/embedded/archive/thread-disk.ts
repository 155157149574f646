import fs from 'node:fs';
import { type Disk, nodeDisk } from '../disk.ts';

/** The thread pool belongs to the gateway's requests, and is not used by threads that archive or find streams. */
export const threadDisk: Disk = {
  ...nodeDisk,
  readLater: async (fd, buffer, offset, length, position) => fs.readSync(fd, buffer, offset, length, position),
  datasync: (fd, done) => done(errorIn(() => fs.fdatasyncSync(fd))),
  syncDirectory: (dir, done) => done(errorIn(() => syncDirectoryNow(dir))),
  removeLater: async (file) => fs.rmSync(file, { force: true }),
};

function errorIn(work: () => void): NodeJS.ErrnoException | null {
  try {
    work();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function syncDirectoryNow(dir: string): void {
  const fd = fs.openSync(dir, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
