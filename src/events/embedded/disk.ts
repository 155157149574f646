/**
 * The file operations that the engine's promises rest on, as values, so that a test can make any of them fail.
 * The synchronous ones only touch the page cache.
 */
import fs from 'node:fs';
import path from 'node:path';

type Done = (error: NodeJS.ErrnoException | null) => void;

export interface Disk {
  /** `create` fails when the file exists. */
  open(file: string, mode: 'create' | 'write' | 'read'): number;
  close(fd: number): void;
  /** Returns the number of bytes written, which may be fewer than asked. */
  write(fd: number, buffer: Buffer, offset: number, length: number, position: number): number;
  /** Returns the number of bytes read; fewer than asked only at the end of the file. */
  read(fd: number, buffer: Buffer, offset: number, length: number, position: number): number;
  readLater(fd: number, buffer: Buffer, offset: number, length: number, position: number): Promise<number>;
  truncate(fd: number, length: number): void;
  size(fd: number): number;
  /** Makes the file's content survive a power cut. */
  datasync(fd: number, done: Done): void;
  /** Makes the names in a directory survive a power cut. */
  syncDirectory(dir: string, done: Done): void;
  rename(from: string, to: string): void;
  remove(file: string): void;
  list(dir: string): string[];
}

const flags = {
  create: fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_EXCL,
  write: fs.constants.O_RDWR,
  read: fs.constants.O_RDONLY,
};

export const nodeDisk: Disk = {
  open: (file, mode) => fs.openSync(file, flags[mode], 0o600),
  close: (fd) => fs.closeSync(fd),
  write: (fd, buffer, offset, length, position) => fs.writeSync(fd, buffer, offset, length, position),
  read: (fd, buffer, offset, length, position) => fs.readSync(fd, buffer, offset, length, position),
  readLater: (fd, buffer, offset, length, position) =>
    new Promise((resolve, reject) => {
      fs.read(fd, buffer, offset, length, position, (error, read) => (error === null ? resolve(read) : reject(error)));
    }),
  truncate: (fd, length) => fs.ftruncateSync(fd, length),
  size: (fd) => fs.fstatSync(fd).size,
  datasync: (fd, done) => fs.fdatasync(fd, done),
  syncDirectory: (dir, done) => {
    fs.open(dir, 'r', (openError, fd) => {
      if (openError !== null) return done(openError);
      fs.fsync(fd, (syncError) => fs.close(fd, (closeError) => done(syncError ?? closeError ?? null)));
    });
  },
  rename: (from, to) => fs.renameSync(from, to),
  remove: (file) => fs.unlinkSync(file),
  list: (dir) => fs.readdirSync(dir),
};

/** Writes a small file so that after a crash it is there whole, as it was before, or not at all. */
export function replaceFile(disk: Disk, file: string, content: Buffer): Promise<void> {
  const temporary = `${file}.tmp`;
  fs.rmSync(temporary, { force: true });
  const fd = disk.open(temporary, 'create');
  return new Promise<void>((resolve, reject) => {
    const fail = (error: unknown) => {
      disk.close(fd);
      reject(error);
    };
    try {
      writeFully(disk, fd, content, 0, content.length, 0);
    } catch (error) {
      return fail(error);
    }
    disk.datasync(fd, (error) => {
      if (error !== null) return fail(error);
      disk.close(fd);
      try {
        disk.rename(temporary, file);
      } catch (renameError) {
        return reject(renameError);
      }
      disk.syncDirectory(path.dirname(file), (syncError) => (syncError === null ? resolve() : reject(syncError)));
    });
  });
}

/** Writes all of it or throws: a short write is tried again, and then the disk says why. */
export function writeFully(
  disk: Disk,
  fd: number,
  buffer: Buffer,
  offset: number,
  length: number,
  position: number,
): void {
  let done = 0;
  while (done < length) {
    const written = disk.write(fd, buffer, offset + done, length - done, position + done);
    if (written <= 0) throw new Error('the disk takes no more bytes and does not say why');
    done += written;
  }
}

/** The port's own promise, with a promise. */
export function datasync(disk: Disk, fd: number): Promise<void> {
  return new Promise((resolve, reject) => disk.datasync(fd, (error) => (error === null ? resolve() : reject(error))));
}

export function syncDirectory(disk: Disk, dir: string): Promise<void> {
  return new Promise((resolve, reject) =>
    disk.syncDirectory(dir, (error) => (error === null ? resolve() : reject(error))),
  );
}
