/** The path of a Unix domain socket has at most 107 bytes on Linux and 103 on macOS. */
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const maxBytes = 103;

export interface ShortPath {
  readonly path: string;
  /** To be called when the socket is bound or connected: the path is not valid afterwards. */
  release(): void;
}

/** A path of the socket that the operating system accepts: through a link in a private folder when its own is too long. */
export function shortSocketPath(socketPath: string): ShortPath {
  if (Buffer.byteLength(socketPath) <= maxBytes) return { path: socketPath, release: () => {} };
  // a long TMPDIR may be why the path is long
  const parent = Buffer.byteLength(tmpdir()) <= 40 ? tmpdir() : '/tmp';
  const folder = mkdtempSync(path.join(parent, 'chancery-'));
  const release = () => rmSync(folder, { recursive: true, force: true });
  const link = path.join(folder, 'd');
  symlinkSync(path.dirname(path.resolve(socketPath)), link);
  const short = path.join(link, path.basename(socketPath));
  if (Buffer.byteLength(short) <= maxBytes) return { path: short, release };
  release();
  throw new Error(`the name of the socket ${path.basename(socketPath)} is too long`);
}
