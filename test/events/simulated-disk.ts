/**
 * A disk in memory that loses data like a real one: unsynced data when the power goes may be there, in pieces, or
 * not, each piece of 512 bytes for itself; names of files that were not synced may be gone or not.
 */
import path from 'node:path';
import type { Disk } from '../../src/events/embedded/disk.ts';

const sector = 512;

let inodes = 0;

class Inode {
  readonly number = ++inodes;
  /** The contents that programs read. */
  content: Buffer = Buffer.alloc(0);
  /** The contents that are certain after a power cut. */
  durable: Buffer = Buffer.alloc(0);
  /** The operations since, in order. */
  pending: ({ write: Buffer; at: number } | { size: number })[] = [];
}

function written(content: Buffer, bytes: Buffer, at: number): Buffer {
  const size = Math.max(content.length, at + bytes.length);
  const result = Buffer.alloc(size);
  content.copy(result);
  bytes.copy(result, at);
  return result;
}

function resized(content: Buffer, size: number): Buffer {
  const result = Buffer.alloc(size);
  content.copy(result, 0, 0, size);
  return result;
}

function missing(file: string): Error {
  return Object.assign(new Error(`ENOENT: ${file}`), { code: 'ENOENT' });
}

export class SimulatedDisk {
  #names = new Map<string, Inode>();
  #durableNames = new Map<string, Inode>();
  readonly #descriptors = new Map<number, Inode>();
  #nextDescriptor = 1;
  /** The probability that a sync fails; its bytes are then lost, although the next one will succeed. */
  syncFailure = 0;
  /** The probability that a write which makes a file larger stops in the middle with ENOSPC. */
  writeFailure = 0;
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** The disk as it is found after the process was killed now: nothing is lost, and nothing more is safe. */
  afterKill(): SimulatedDisk {
    const found = new SimulatedDisk(this.#random);
    const copies = new Map<Inode, Inode>();
    for (const inode of [...this.#names.values(), ...this.#durableNames.values()]) {
      const copy = copies.get(inode) ?? new Inode();
      copies.set(inode, copy);
      copy.content = inode.content;
      copy.durable = inode.durable;
      copy.pending = [...inode.pending];
    }
    const copied = (names: Map<string, Inode>) =>
      new Map([...names].map(([name, inode]) => [name, copies.get(inode) ?? inode] as const));
    found.#names = copied(this.#names);
    found.#durableNames = copied(this.#durableNames);
    return found;
  }

  /** The disk as it may be found after the power went now. */
  afterPowerCut(): SimulatedDisk {
    const found = new SimulatedDisk(this.#random);
    const names = new Map(this.#durableNames);
    for (const [name, inode] of this.#names) if (this.#random() < 0.5) names.set(name, inode);
    for (const name of this.#durableNames.keys()) {
      if (!this.#names.has(name) && this.#random() < 0.5) names.delete(name);
    }
    for (const [name, inode] of names) {
      const survivor = new Inode();
      survivor.durable = this.#afterPowerCut(inode);
      survivor.content = Buffer.from(survivor.durable);
      found.#names.set(name, survivor);
      found.#durableNames.set(name, survivor);
    }
    return found;
  }

  #afterPowerCut(inode: Inode): Buffer {
    // for each disk another part of the unsynced bytes: all, none, or anything in between
    const luck = this.#random() * 1.4 - 0.2;
    let content = inode.durable;
    for (const change of inode.pending) {
      if ('size' in change) {
        if (this.#random() < luck) content = resized(content, change.size);
        continue;
      }
      for (let from = 0; from < change.write.length; ) {
        const to = Math.min(change.write.length, from + sector - ((change.at + from) % sector));
        if (this.#random() < luck) content = written(content, change.write.subarray(from, to), change.at + from);
        from = to;
      }
    }
    return content;
  }

  #inode(fd: number): Inode {
    const inode = this.#descriptors.get(fd);
    if (inode === undefined) throw new Error(`EBADF: ${fd}`);
    return inode;
  }

  #named(file: string): Inode {
    const inode = this.#names.get(path.basename(file));
    if (inode === undefined) throw missing(file);
    return inode;
  }

  #read(fd: number, buffer: Buffer, offset: number, length: number, position: number): number {
    const { content } = this.#inode(fd);
    return position >= content.length ? 0 : content.copy(buffer, offset, position, position + length);
  }

  get disk(): Disk {
    return {
      open: (file, mode) => {
        const name = path.basename(file);
        if (mode === 'create') {
          if (this.#names.has(name)) throw Object.assign(new Error(`EEXIST: ${file}`), { code: 'EEXIST' });
          this.#names.set(name, new Inode());
        }
        const fd = this.#nextDescriptor++;
        this.#descriptors.set(fd, this.#named(file));
        return fd;
      },
      close: (fd) => {
        this.#inode(fd);
        this.#descriptors.delete(fd);
      },
      write: (fd, buffer, offset, length, position) => {
        const inode = this.#inode(fd);
        const grows = position + length > inode.content.length;
        const full = grows && this.#random() < this.writeFailure;
        const fitting = full ? Math.floor(this.#random() * length) : length;
        const bytes = Buffer.from(buffer.subarray(offset, offset + fitting));
        inode.content = written(inode.content, bytes, position);
        inode.pending.push({ write: bytes, at: position });
        if (full) throw Object.assign(new Error('ENOSPC: simulated'), { code: 'ENOSPC' });
        return length;
      },
      read: (...args) => this.#read(...args),
      readLater: async (...args) => this.#read(...args),
      readFile: (file) => Buffer.from(this.#named(file).content),
      truncate: (fd, length) => {
        const inode = this.#inode(fd);
        inode.content = resized(inode.content, length);
        inode.pending.push({ size: length });
      },
      size: (fd) => this.#inode(fd).content.length,
      identity: (fd) => ({ dev: 0, ino: this.#inode(fd).number }),
      isNamed: ({ ino }, file) => this.#names.get(path.basename(file))?.number === ino,
      datasync: (fd, done) => {
        const inode = this.#inode(fd);
        const count = inode.pending.length;
        const fails = this.#random() < this.syncFailure;
        setImmediate(() => {
          const changes = inode.pending.splice(0, count);
          if (fails) return done(Object.assign(new Error('EIO: simulated'), { code: 'EIO' }));
          for (const change of changes) {
            inode.durable =
              'size' in change ? resized(inode.durable, change.size) : written(inode.durable, change.write, change.at);
          }
          done(null);
        });
      },
      syncDirectory: (_dir, done) => {
        const names = new Map(this.#names);
        setImmediate(() => {
          this.#durableNames = names;
          done(null);
        });
      },
      rename: (from, to) => {
        const inode = this.#named(from);
        this.#names.delete(path.basename(from));
        this.#names.set(path.basename(to), inode);
      },
      remove: (file) => {
        this.#named(file);
        this.#names.delete(path.basename(file));
      },
      removeLater: async (file) => {
        this.#names.delete(path.basename(file));
      },
      list: () => [...this.#names.keys()],
    };
  }
}
