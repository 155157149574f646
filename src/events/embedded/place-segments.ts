/**
 * Finds segment files that begin at another position than their name says: files that were swapped or renamed, and copies
 * beside the original. The content proves where it belongs: it gets that name where it is free, else it is foreign.
 */
import path from 'node:path';
import { type Disk, fileSize, syncDirectory } from './disk.ts';
import { frameHeaderBytes, readFrameHeader } from './frame.ts';
import { LogCorrupted, type MissingPart } from './log-errors.ts';
import type { Losses } from './losses.ts';
import { type Manifest, manifestIn } from './manifest.ts';
import { type LogFiles, segmentName } from './segment.ts';
import { unpackedBlocks } from './zstd.ts';

/** Most compressed segments have their first block in so many bytes. */
const firstBytes = 1024 * 1024;

/** A file on its way to its name: it is found again when the renaming was interrupted. */
const onTheWay = '.moving';

const fileName = /^(\d{16})\.(seg|zst|json)(\.moving)?$/;

interface FoundFile {
  readonly file: string;
  readonly kind: string;
  /** The segment of its name. */
  readonly name: string;
  /** The position with which it begins; undefined when its content does not show it. */
  readonly begins: number | undefined;
}

export interface Placement {
  /** One for each segment with files to be renamed. */
  readonly parts: readonly MissingPart[];
  /** Shows the folder as it will be then. */
  readonly disk: Disk;
}

/** Position of the first event of an uncompressed segment; undefined when it has none, or it cannot be read. */
export function firstInFrames({ disk, mark }: LogFiles, file: string): number | undefined {
  return firstOf(readStart(disk, file, frameHeaderBytes), mark);
}

export function isOnTheWay(file: string): boolean {
  return file.endsWith(onTheWay);
}

/** Changes nothing. */
export function placeSegments(log: LogFiles, losses: Losses): Placement {
  const { disk, dir } = log;
  const listed = disk.list(dir).toSorted();
  const found = listed.flatMap((file) => findFile(log, file) ?? []);
  const isAtItsName = ({ file, kind, begins }: FoundFile) =>
    begins === undefined ? !isOnTheWay(file) : file === `${segmentName(begins)}.${kind}`;
  const taken = new Set(listed.filter((file) => !found.some((one) => one.file === file && !isAtItsName(one))));
  const ranges = found.flatMap((one) => (one.kind === 'json' && isAtItsName(one) ? (rangeOf(log, one) ?? []) : []));
  const parts = new Map<string, { reason: string; renames: { from: string; to: string }[] }>();
  for (const one of found) {
    if (isAtItsName(one)) continue;
    const { file, kind, name, begins } = one;
    const right = begins === undefined ? undefined : segmentName(begins);
    const others = kind === 'seg' ? ['seg', 'zst', 'json'] : ['seg', kind];
    const isFree =
      begins !== undefined &&
      others.every((other) => !taken.has(`${right}.${other}`)) &&
      losses.lostUntil(begins) === undefined &&
      !ranges.some(({ first, last }) => first < begins && begins <= last);
    const to = isFree ? `${right}.${kind}` : freeName(`${file}.foreign`, taken);
    const place = isFree
      ? `they are segment ${right}`
      : 'they are foreign: that position is in another file, or was lost';
    const reason = `files named as segment ${name} begin with position ${begins ?? 'unknown'}: ${place}`;
    const part = parts.get(reason) ?? { reason, renames: [] };
    part.renames.push({ from: file, to });
    parts.set(reason, part);
    taken.add(to);
  }
  const all = [...parts.values()];
  return {
    parts: all.map((part) => ({ ...part, files: part.renames.map(({ from }) => from) })),
    disk: renamedView(
      disk,
      dir,
      all.flatMap(({ renames }) => renames),
    ),
  };
}

/** Renames the files. After an interruption at any step this can be repeated. */
export async function renameMisplaced({ disk, dir }: LogFiles, parts: readonly MissingPart[]): Promise<void> {
  const renames = parts.flatMap((part) => part.renames ?? []);
  const rename = (from: string, to: string) => {
    if (from !== to) disk.rename(path.join(dir, from), path.join(dir, to));
  };
  const [foreign, placed] = [
    renames.filter(({ to }) => !fileName.test(to)),
    renames.filter(({ to }) => fileName.test(to)),
  ];
  for (const { from, to } of foreign) rename(from, to);
  for (const { from, to } of placed) rename(from, `${to}${onTheWay}`);
  await syncDirectory(disk, dir);
  for (const { to } of placed) rename(`${to}${onTheWay}`, to);
  await syncDirectory(disk, dir);
}

function findFile(log: LogFiles, file: string): FoundFile | undefined {
  const [, name, kind] = fileName.exec(file) ?? [];
  if (name === undefined || kind === undefined) return undefined;
  const full = path.join(log.dir, file);
  const begins =
    kind === 'seg'
      ? firstInFrames(log, full)
      : kind === 'json'
        ? readable(log, full, name)?.first
        : firstInBlocks(log, full);
  return { file, name, kind, begins };
}

function rangeOf(log: LogFiles, { file, name }: FoundFile): Manifest | undefined {
  return readable(log, path.join(log.dir, file), name);
}

function readable({ disk }: LogFiles, file: string, name: string): Manifest | undefined {
  try {
    return manifestIn(disk, file, name);
  } catch (error) {
    if (error instanceof LogCorrupted) return undefined;
    throw error;
  }
}

/** Of a block that cannot be unpacked the table beside it, if it is of a file of that size, says the position. */
function firstInBlocks(log: LogFiles, file: string): number | undefined {
  const { disk, mark } = log;
  const size = fileSize(disk, file);
  for (const bytes of new Set([Math.min(size, firstBytes), size])) {
    const [block] = unpackedBlocks(readStart(disk, file, bytes));
    const first = block?.raw === undefined ? undefined : firstOf(block.raw, mark);
    if (first !== undefined) return first;
  }
  const table = file.replace('.zst', '.json');
  if (!disk.list(log.dir).includes(path.basename(table))) return undefined;
  const manifest = readable(log, table, path.basename(file));
  return manifest?.compressedBytes === size ? manifest.first : undefined;
}

function firstOf(bytes: Buffer, mark: number): number | undefined {
  const header = readFrameHeader(bytes, 0, bytes.length, mark);
  return typeof header === 'string' ? undefined : header.first;
}

function readStart(disk: Disk, file: string, length: number): Buffer {
  const fd = disk.open(file, 'read');
  try {
    const bytes = Buffer.allocUnsafeSlow(length);
    return bytes.subarray(0, disk.read(fd, bytes, 0, length, 0));
  } finally {
    disk.close(fd);
  }
}

function freeName(name: string, taken: ReadonlySet<string>): string {
  for (let n = 1; ; n++) {
    const free = n === 1 ? name : `${name}-${n}`;
    if (!taken.has(free)) return free;
  }
}

function renamedView(disk: Disk, dir: string, renames: readonly { from: string; to: string }[]): Disk {
  const from = new Map(renames.map(({ from: file, to }) => [path.join(dir, to), path.join(dir, file)]));
  const gone = new Set(from.values());
  // a name that has been given up has no file
  const at = (file: string) => from.get(file) ?? (gone.has(file) ? `${file}.none` : file);
  return {
    ...disk,
    open: (file, mode) => disk.open(at(file), mode),
    readFile: (file) => disk.readFile(at(file)),
    list: (folder) => {
      const files = disk.list(folder);
      if (folder !== dir) return files;
      return [...files.filter((file) => !gone.has(path.join(dir, file))), ...renames.map(({ to }) => to)];
    },
  };
}
