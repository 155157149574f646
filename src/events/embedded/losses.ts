/**
 * Positions that an operator accepted as lost, kept beside the segments, so that readers skip them and no later event
 * gets one of them. An entry is on disk before any other step of an acceptance.
 */
import path from 'node:path';
import { z } from 'zod';
import { type Disk, isMissing, replaceFile } from './disk.ts';
import { LogCorrupted } from './log-errors.ts';

export const lossesFile = 'losses.json';

const position = z.number().int().positive();

const acceptanceSchema = z.object({
  /** When, in ISO 8601, and by whom. */
  at: z.string(),
  by: z.string(),
  reason: z.string(),
  /** Ranges of positions, both ends included. None when only a file without events was missing. */
  positions: z.array(z.object({ first: position, last: position })),
  /** The missing files, under the names that the operator saw. */
  files: z.array(z.string()),
  /** Whether the log has the event that records the loss. */
  recorded: z.boolean(),
});

const fileSchema = z.object({
  format: z.literal('chancery-losses'),
  version: z.literal(1),
  accepted: z.array(acceptanceSchema),
});

export type AcceptedLoss = z.infer<typeof acceptanceSchema>;

export interface PositionRange {
  readonly first: number;
  readonly last: number;
}

export class Losses {
  readonly accepted: readonly AcceptedLoss[];
  /** Ascending, apart from each other. */
  readonly #ranges: readonly PositionRange[];

  constructor(accepted: readonly AcceptedLoss[] = []) {
    this.accepted = accepted;
    this.#ranges = joined(accepted.flatMap(({ positions }) => positions));
  }

  /** The last position before it that is not lost. */
  lastBefore(first: number): number {
    const last = first - 1;
    const range = this.#ranges.find((one) => one.first <= last && last <= one.last);
    return range === undefined ? last : range.first - 1;
  }

  /** The last of the lost positions that follow each other from there on; undefined when that one is not lost. */
  lostUntil(position: number): number | undefined {
    return this.#ranges.find(({ first, last }) => first <= position && position <= last)?.last;
  }

  get any(): boolean {
    return this.#ranges.length > 0;
  }
}

export const noLosses = new Losses();

/** @throws LogCorrupted when the file cannot be parsed: without it lost positions would be used again */
export function readLosses(disk: Disk, dir: string): Losses {
  let text: string;
  try {
    text = disk.readFile(path.join(dir, lossesFile)).toString();
  } catch (error) {
    if (isMissing(error)) return noLosses;
    throw error;
  }
  try {
    return new Losses(fileSchema.parse(JSON.parse(text)).accepted);
  } catch (error) {
    const advice = `Put ${lossesFile} back from a backup: without it lost positions would be used again`;
    throw new LogCorrupted(lossesFile, 0, 'the list of accepted losses cannot be read', error, advice);
  }
}

export async function writeLosses(disk: Disk, dir: string, accepted: readonly AcceptedLoss[]): Promise<Losses> {
  const content = { format: 'chancery-losses', version: 1, accepted };
  await replaceFile(disk, path.join(dir, lossesFile), Buffer.from(`${JSON.stringify(content, null, 2)}\n`));
  return new Losses(accepted);
}

function joined(ranges: readonly PositionRange[]): PositionRange[] {
  const result: PositionRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = result.at(-1);
    if (before === undefined || range.first > before.last + 1) result.push(range);
    else result[result.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
  }
  return result;
}
