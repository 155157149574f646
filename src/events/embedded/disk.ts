/**
 * The file operations that the engine's guarantees depend on, as values, so that a test can make any of them fail.
 * The synchronous ones only touch the page cache.
 */
import fs, { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';

/** A file that is closed once, after `close` as soon as no read of it is running. */
export class ClosableFile {
  readonly #disk: Disk;
  readonly #fd: number;
  #reads = 0;
  #closed = false;

  constructor(disk: Disk, fd: number) {
    this.#disk = disk;
    this.#fd = fd;
  }

  /** @throws Error after `close`: the descriptor may belong to another file by then */
  async read(buffer: Buffer, length: number, position: number): Promise<number> {
    if (this.#closed) throw new Error('the file was closed before the read');
    this.#reads++;
    try {
      return await this.#disk.readLater(this.#fd, buffer, 0, length, position);
    } finally {
      this.#reads--;
      // never during a read: the descriptor could be reused for another file
      if (this.#closed && this.#reads === 0) this.#disk.close(this.#fd);
    }
  }

  get closed(): boolean {
    return this.#closed;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#reads === 0) this.#disk.close(this.#fd);
  }
}

type Done = (error: NodeJS.ErrnoException | null) => void;

/** Two files that are open at the same time have different ones. */
export interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

export interface Disk {
  /** `create` fails when the file exists. */
  open(file: string, mode: 'create' | 'write' | 'read'): number;
  close(fd: number): void;
  /** Returns the number of bytes written, which may be fewer than requested. */
  write(fd: number, buffer: Buffer, offset: number, length: number, position: number): number;
  /** Returns the number of bytes read; fewer than requested only at the end of the file. */
  read(fd: number, buffer: Buffer, offset: number, length: number, position: number): number;
  readLater(fd: number, buffer: Buffer, offset: number, length: number, position: number): Promise<number>;
  /** A small file, whole. */
  readFile(file: string): Buffer;
  truncate(fd: number, length: number): void;
  size(fd: number): number;
  /** Of an open file, as long as it is open. */
  identity(fd: number): FileIdentity;
  /** Whether the open file is the one that has this name: it was neither removed, moved nor replaced. */
  isNamed(identity: FileIdentity, file: string): boolean;
  /** Makes the file's content survive a power cut. */
  datasync(fd: number, done: Done): void;
  /** Makes the names in a directory survive a power cut. */
  syncDirectory(dir: string, done: Done): void;
  rename(from: string, to: string): void;
  remove(file: string): void;
  /** As `remove`, for large files, whose removal takes a while. A missing file is no error. */
  removeLater(file: string): Promise<void>;
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
  readFile: (file) => fs.readFileSync(file),
  truncate: (fd, length) => fs.ftruncateSync(fd, length),
  size: (fd) => fs.fstatSync(fd).size,
  identity: (fd) => fs.fstatSync(fd),
  isNamed: ({ dev, ino }, file) => {
    const named = fs.statSync(file, { throwIfNoEntry: false });
    return named !== undefined && named.ino === ino && named.dev === dev;
  },
  datasync: (fd, done) => fs.fdatasync(fd, done),
  syncDirectory: (dir, done) => {
    fs.open(dir, 'r', (openError, fd) => {
      if (openError !== null) return done(openError);
      fs.fsync(fd, (syncError) => fs.close(fd, (closeError) => done(syncError ?? closeError ?? null)));
    });
  },
  rename: (from, to) => fs.renameSync(from, to),
  remove: (file) => fs.unlinkSync(file),
  removeLater: (file) => fs.promises.rm(file, { force: true }),
  list: (dir) => fs.readdirSync(dir),
};

/** Replaces a small file: after a crash it has the new content, the old content, or does not exist. */
export async function replaceFile(disk: Disk, file: string, content: Buffer): Promise<void> {
  const temporary = `${file}.tmp`;
  await disk.removeLater(temporary);
  const fd = disk.open(temporary, 'create');
  try {
    writeFully(disk, fd, content, 0, content.length, 0);
    await datasync(disk, fd);
  } finally {
    disk.close(fd);
  }
  disk.rename(temporary, file);
  await syncDirectory(disk, path.dirname(file));
}

/** Writes all of it or throws: after a short write it tries again, and the disk then returns its error. */
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
    if (written <= 0) throw new Error('the disk accepted no more bytes and reported no error');
    done += written;
  }
}

export function fileSize(disk: Disk, file: string): number {
  const fd = disk.open(file, 'read');
  try {
    return disk.size(fd);
  } finally {
    disk.close(fd);
  }
}

/** `Disk.datasync` as a promise. */
export function datasync(disk: Disk, fd: number): Promise<void> {
  return new Promise((resolve, reject) => disk.datasync(fd, (error) => (error === null ? resolve() : reject(error))));
}

/** `Disk.syncDirectory` as a promise. */
export function syncDirectory(disk: Disk, dir: string): Promise<void> {
  return new Promise((resolve, reject) =>
    disk.syncDirectory(dir, (error) => (error === null ? resolve() : reject(error))),
  );
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Creates the directory, and those above it, so that they survive a power cut. @throws what the file system throws */
export async function makeDirectory(disk: Disk, dir: string): Promise<void> {
  // Node's own recursive creation does not end in /proc.
  const missing: string[] = [];
  for (let at = path.resolve(dir); !existsSync(at); at = path.dirname(at)) missing.unshift(at);
  for (const one of missing) createDirectory(one);
  for (const one of missing.toReversed()) await syncDirectory(disk, path.dirname(one));
}

function createDirectory(dir: string): void {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    // another process was faster
    if (!existsSync(dir)) throw error;
  }
}
