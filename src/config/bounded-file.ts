/** Reads the files that settings are in or name. A pipe or a device there neither blocks the process nor fills its memory. */
import { closeSync, constants, fstatSync, openSync, readSync, realpathSync } from 'node:fs';
import { devNull } from 'node:os';

const CHUNK_BYTES = 64 * 1024;

/**
 * The content of a regular file, or of `/dev/null`.
 * @throws Error of the system when it cannot be opened or read; Error that names it when it is no file, or too large
 */
export function readBoundedFile(path: string, maxBytes = 1024 * 1024): Buffer {
  // Without waiting for the writer of a pipe.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const facts = fstatSync(file);
    if (!facts.isFile() && realpathSync(path) !== devNull) throw new Error(`${path} is not a file`);
    const tooLarge = () => new Error(`${path} has more than ${maxBytes / 1024} KiB`);
    if (facts.size > maxBytes) throw tooLarge();
    const chunks: Buffer[] = [];
    // The size is not relied on: files of /proc have 0, others grow.
    for (let bytes = 0, read = -1; read !== 0; bytes += read) {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      read = readSync(file, chunk);
      if (bytes + read > maxBytes) throw tooLarge();
      chunks.push(chunk.subarray(0, read));
    }
    return Buffer.concat(chunks);
  } finally {
    closeSync(file);
  }
}
