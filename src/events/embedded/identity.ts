/** The identity of a log: its id and its mark, written once when it is created. */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { mintEventId } from '../event-id.ts';
import { type Disk, replaceFile } from './disk.ts';
import { frameHeaderBytes, markOf } from './frame.ts';
import { LogCorrupted } from './log-errors.ts';
import { segmentFile, segmentName, segmentsIn } from './segment.ts';
import { openBlocks } from './segment-blocks.ts';
import { Watermark } from './watermark.ts';

const identitySchema = z.object({
  format: z.literal('chancery-log'),
  version: z.literal(1),
  /** UUIDv7 of this log, also after it has been moved. */
  id: z.string(),
  /** See frame.ts. Eight hex digits. */
  mark: z.string().regex(/^[0-9a-f]{8}$/),
});

export const identityFile = 'log.json';

export interface LogIdentity {
  readonly id: string;
  readonly mark: number;
}

/**
 * The identity, for reading. When the file is lost or damaged the mark is read from the segments, and the id is empty.
 * @throws LogCorrupted when there are segments and neither the file nor a segment yields the mark
 */
export async function readIdentity(disk: Disk, dir: string): Promise<LogIdentity | undefined> {
  const found = await soundIdentity(disk, dir);
  if (found !== undefined) return found;
  const mark = await markFromSegments(disk, dir);
  return mark === undefined ? undefined : { id: unknownId, mark };
}

/** As `identityInFile`; undefined, too, when the segments and the note of what is on disk agree on another mark. */
export async function soundIdentity(disk: Disk, dir: string): Promise<LogIdentity | undefined> {
  const found = identityInFile(disk, dir);
  const noted = Watermark.find(disk, dir)?.mark;
  if (found === undefined || noted === undefined || noted === found.mark) return found;
  const ofSegments = await markFromSegments(disk, dir).catch(() => undefined);
  return ofSegments === noted ? undefined : found;
}

/** Undefined when the file is lost or damaged. */
export function identityInFile(disk: Disk, dir: string): LogIdentity | undefined {
  if (!disk.list(dir).includes(identityFile)) return undefined;
  const parsed = identitySchema.safeParse(parseJson(disk.readFile(path.join(dir, identityFile)).toString()));
  return parsed.success ? { id: parsed.data.id, mark: Number.parseInt(parsed.data.mark, 16) } : undefined;
}

export function newMark(): number {
  return randomBytes(4).readUInt32LE();
}

/** Gives the log an id: the last step of creating a log, after everything else was made. */
export async function writeIdentity(disk: Disk, dir: string, mark: number): Promise<void> {
  const content = { format: 'chancery-log', version: 1, id: mintEventId(), mark: mark.toString(16).padStart(8, '0') };
  await replaceFile(disk, path.join(dir, identityFile), Buffer.from(`${JSON.stringify(content)}\n`));
}

const unknownId = '';

/** The file is lost or damaged: every whole frame carries the mark too. */
export async function markFromSegments(disk: Disk, dir: string): Promise<number | undefined> {
  const segments = segmentsIn(disk.list(dir));
  let withBytes: string | undefined;
  for (const first of segments.keys()) {
    const name = segmentName(first);
    try {
      const blocks = await openBlocks(disk, dir, name, 0, []);
      const block = await blocks.read(0, frameHeaderBytes, false).finally(() => blocks.close());
      if (block === undefined) continue;
      const mark = markOf(block.buffer.subarray(block.start, block.end));
      if (mark !== undefined) return mark;
    } catch (error) {
      if (!(error instanceof LogCorrupted)) throw error;
    }
    withBytes ??= segmentFile(dir, name, 'seg');
  }
  if (withBytes === undefined) return undefined;
  throw new LogCorrupted(path.basename(withBytes), 0, `${identityFile} is missing or damaged, and no frame is whole`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
