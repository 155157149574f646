import type { Disk } from './disk.ts';

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
