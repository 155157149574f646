/** Reads a whole log, with or without a running writer, and verifies all checksums, positions and revisions. */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { catalogue } from '../catalogue/catalogue.ts';
import type { RecordedEvent, StreamName } from '../event.ts';
import { indexedSegments } from './archive/index-file.ts';
import { type Disk, isMissing, nodeDisk } from './disk.ts';
import { RecordReader, recordEnd, recordIsSound } from './event-record.ts';
import type { FrameRun } from './frame.ts';
import { identityFile, readIdentity, soundIdentity } from './identity.ts';
import { type Inspection, inspectSegments } from './inspect-segments.ts';
import { describeMissing, LogCorrupted, type MissingPart } from './log-errors.ts';
import { readLosses } from './losses.ts';
import { type Manifest, readManifest } from './manifest.ts';
import { findLaterFrames, type ScannedSegment, scanSegment } from './scan-segment.ts';
import { Segment, segmentName, segmentsIn } from './segment.ts';
import { walkSegment } from './segment-blocks.ts';
import { Watermark, watermarkFile } from './watermark.ts';

export interface LogProblem {
  readonly segment: string;
  /** Byte in the segment, uncompressed. */
  readonly offset: number;
  readonly position?: number;
  readonly reason: string;
}

export interface LogCheck {
  readonly segments: number;
  readonly batches: number;
  readonly events: number;
  readonly streams: number;
  /** Uncompressed bytes of the batches that were read. */
  readonly bytes: number;
  /** Bytes behind the last whole batch: a write that a crash interrupted, or one in progress. */
  readonly unfinishedBytes: number;
  /** The first problem; the log after it has not been checked. */
  readonly problem?: LogProblem;
}

export interface CheckLogOptions {
  readonly disk?: Disk;
  /** Called a few times per megabyte. */
  readonly onProgress?: (progress: { events: number; bytes: number; segment: string }) => void;
  readonly signal?: AbortSignal;
}

const nothingRead = { segments: 0, batches: 0, events: 0, streams: 0, bytes: 0, unfinishedBytes: 0 };

/** @throws Error when there is no log in that directory, or when aborted */
export async function checkLog(directory: string, options: CheckLogOptions = {}): Promise<LogCheck> {
  const dir = path.resolve(directory);
  const disk = options.disk ?? nodeDisk;
  const found = await readIdentity(disk, dir).catch(problemOf);
  if (found === undefined && Watermark.find(disk, dir) === undefined)
    throw new Error(`there is no event log in ${dir}`);
  if (found === undefined) return { ...nothingRead, problem: problemOfMissing({ files: [identityFile] }) };
  if ('reason' in found) return { ...nothingRead, problem: found };
  const check = new Check(disk, dir, found.mark, options);
  try {
    const problem = await check.run().then(() => undefined, problemOf);
    return { ...check.counts(), problem };
  } finally {
    check.close();
  }
}

function problemOf(error: unknown): LogProblem {
  if (error instanceof BadEvent) return error.problem;
  if (error instanceof LogCorrupted) return { segment: error.segment, offset: error.offset, reason: error.reason };
  throw error;
}

function problemOfMissing(part: MissingPart): LogProblem {
  const position = part.positions?.first;
  const segment = position === undefined ? (part.files[0] ?? '') : segmentName(position);
  return { segment, offset: 0, position, reason: describeMissing(part) };
}

class BadEvent extends Error {
  readonly problem: LogProblem;
  constructor(problem: LogProblem) {
    super(problem.reason);
    this.problem = problem;
  }
}

/** Most inspections while the segments change. */
const MOST_INSPECTIONS = 10;

function isSamePlace(one: LogCorrupted, other: LogCorrupted | undefined): boolean {
  return one.segment === other?.segment && one.offset === other.offset;
}

interface LogEnd {
  readonly scanned: ScannedSegment;
  /** Evidence that events up to this position were on disk. */
  readonly durable: number;
}

class Check {
  readonly disk: Disk;
  readonly dir: string;
  readonly mark: number;
  readonly #options: CheckLogOptions;
  readonly #records = new RecordReader();
  readonly #revisions = new StreamRevisions();
  #segments = 0;
  #batches = 0;
  #events = 0;
  #bytes = 0;
  #unfinishedBytes = 0;

  constructor(disk: Disk, dir: string, mark: number, options: CheckLogOptions) {
    this.disk = disk;
    this.dir = dir;
    this.mark = mark;
    this.#options = options;
  }

  counts(): Omit<LogCheck, 'problem'> {
    return {
      segments: this.#segments,
      batches: this.#batches,
      events: this.#events,
      streams: this.#revisions.streams,
      bytes: this.#bytes,
      unfinishedBytes: this.#unfinishedBytes,
    };
  }

  async run(): Promise<void> {
    // beside a writer: events of the note, which is read first, must be in the segments that are listed afterwards
    const durable = this.#noted();
    const inspection = this.#inspect(durable);
    const misplaced = inspection instanceof Error ? undefined : inspection.missing.find(({ renames }) => renames);
    if (misplaced !== undefined) throw new BadEvent(problemOfMissing(misplaced));
    const firsts = this.#firsts(inspection);
    const losses = readLosses(this.disk, this.dir);
    let last = 0;
    for (const [at, first] of firsts.entries()) {
      const segment = new Segment(first);
      const before = losses.lastBefore(first);
      if (before !== last) throw this.#gap(inspection, segment, last, before);
      if (before !== first - 1) this.#revisions.eventsAreLost();
      const following = firsts[at + 1];
      last =
        following === undefined
          ? await this.#checkLast(segment, durable ?? 0)
          : await this.#checkClosed(segment, Math.min(losses.lastBefore(following), this.#lastOf(inspection, first)));
    }
    if (inspection instanceof Error) throw inspection;
    const [missing] = inspection.missing;
    if (missing !== undefined) throw new BadEvent(problemOfMissing(missing));
    if ((await soundIdentity(this.disk, this.dir)) === undefined)
      throw new BadEvent(problemOfMissing({ files: [identityFile] }));
    if (durable === undefined) throw new BadEvent(problemOfMissing({ files: [watermarkFile] }));
  }

  /** First positions of the segments, up to where the log is torn. */
  #firsts(inspection: Inspection | LogCorrupted): number[] {
    const whole = [...segmentsIn(this.disk.list(this.dir))].filter(([, kinds]) => kinds.has('seg') || kinds.size > 1);
    const later = inspection instanceof Error ? [] : (inspection.tear?.later ?? []);
    return whole.map(([first]) => first).filter((first) => !later.includes(segmentName(first)));
  }

  #lastOf(inspection: Inspection | LogCorrupted, first: number): number {
    const known = inspection instanceof Error ? undefined : inspection.lasts.get(first);
    return known ?? Number.POSITIVE_INFINITY;
  }

  #noted(): number | undefined {
    const watermark = Watermark.openForReading(this.disk, this.dir, this.mark);
    const position = watermark?.read();
    watermark?.close();
    return position;
  }

  /** The parts that the next writer would find missing, or the damage that prevents the inspection. */
  #inspect(durable: number | undefined): Inspection | LogCorrupted {
    const indexed = indexedSegments(this.dir, this.mark);
    let damage: LogCorrupted | undefined;
    for (let attempt = 1; ; attempt++) {
      try {
        return inspectSegments(this, { durable, indexed, losses: readLosses(this.disk, this.dir) });
      } catch (error) {
        if (error instanceof LogCorrupted) {
          // Beside a writer, an unfinished write looks damaged; the next inspection then finds another place.
          if (attempt === MOST_INSPECTIONS || isSamePlace(error, damage)) return error;
          damage = error;
          continue;
        }
        // a segment is compressed, and its first form removed, at any moment
        if (!isMissing(error) || attempt === MOST_INSPECTIONS) throw error;
      }
    }
  }

  #gap(inspection: Inspection | LogCorrupted, segment: Segment, last: number, before: number): Error {
    const parts = inspection instanceof Error ? [] : inspection.missing;
    const part = parts.find(({ positions }) => positions?.first === last + 1);
    if (part !== undefined) return new BadEvent(problemOfMissing(part));
    if (inspection instanceof Error) return inspection;
    return new LogCorrupted(segment.name, 0, `positions ${last + 1} to ${before} are missing`);
  }

  async #checkClosed(segment: Segment, last: number): Promise<number> {
    const manifest = this.#manifestOf(segment);
    const hash = manifest === undefined ? undefined : createHash('sha256');
    await this.#checkFrames(segment, last, (run) => hash?.update(run.buffer.subarray(run.start, run.end)));
    if (manifest !== undefined && hash?.digest('hex') !== manifest.sha256) {
      throw new LogCorrupted(segment.name, 0, 'its content does not have the hash that its manifest says');
    }
    if (manifest !== undefined && (manifest.first !== segment.first || manifest.last !== last)) {
      throw new LogCorrupted(segment.name, 0, `its manifest says positions ${manifest.first} to ${manifest.last}`);
    }
    return last;
  }

  /** Undefined for a segment that is not compressed yet. */
  #manifestOf(segment: Segment): Manifest | undefined {
    try {
      return readManifest(this.disk, this.dir, segment.name);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async #checkLast(segment: Segment, known: number): Promise<number> {
    let end: LogEnd;
    try {
      end = this.#endOf(segment, known);
    } catch (error) {
      if (!isMissing(error)) throw error;
      const { last } = readManifest(this.disk, this.dir, segment.name);
      return this.#checkClosed(segment, last);
    }
    const { scanned, durable } = end;
    const { last, fileBytes, defect } = scanned;
    await this.#checkFrames(segment, last);
    if (durable > last && defect !== undefined) {
      const lost = `events up to position ${durable} had been on disk`;
      throw new LogCorrupted(segment.name, scanned.segment.bytes, `${defect}, although ${lost}`);
    }
    this.#unfinishedBytes = fileBytes - scanned.segment.bytes;
    return last;
  }

  /** The end of the log. It is read again when it looks unfinished or too short: a writer may have just finished it. */
  #endOf(segment: Segment, known: number): LogEnd {
    for (let before = -1; ; ) {
      const scanned = scanSegment(this.disk, this.dir, this.mark, segment.first);
      const { bytes } = scanned.segment;
      const later = findLaterFrames(this.disk, this.dir, this.mark, segment.name, bytes, scanned.last + 1);
      const durable = Math.max(known, later.durable);
      if ((scanned.defect === undefined && durable <= scanned.last) || bytes === before) return { scanned, durable };
      before = bytes;
    }
  }

  async #checkFrames(segment: Segment, last: number, onRun?: (run: FrameRun) => void): Promise<void> {
    this.#segments++;
    for await (const run of walkSegment(this, segment, last)) {
      this.#options.signal?.throwIfAborted();
      onRun?.(run);
      let frameStart = run.start;
      for (const frame of run.frames) {
        const offset = run.offset + frameStart - run.start;
        let at = frame.start;
        for (let position = frame.first; position <= frame.last; position++) {
          if (!recordIsSound(run.buffer, at, frame.end)) {
            throw new BadEvent({
              segment: segment.name,
              offset,
              position,
              reason: 'a record has an impossible length',
            });
          }
          this.#checkEvent(run.buffer, at, { segment: segment.name, offset, position });
          at = recordEnd(run.buffer, at);
        }
        if (at !== frame.end) throw new LogCorrupted(segment.name, offset, 'a batch has more events than it says');
        frameStart = frame.end;
        this.#batches++;
      }
      this.#bytes += run.end - run.start;
      this.#options.onProgress?.({ events: this.#events, bytes: this.#bytes, segment: segment.name });
      await nextTurn();
    }
    this.#revisions.endSegment();
  }

  #checkEvent(buffer: Buffer, at: number, place: { segment: string; offset: number; position: number }): void {
    const bad = (reason: string) => new BadEvent({ ...place, reason });
    let event: RecordedEvent | undefined;
    try {
      event = this.#records.read(buffer, at, place.position);
    } catch (error) {
      throw bad(`the event cannot be read: ${error instanceof Error ? error.message : String(error)}`);
    }
    if (event === undefined) throw bad('the event cannot be read');
    const expected = this.#revisions.next(event.stream);
    const revision = Number(event.revision);
    const jumps = revision > expected && this.#revisions.mayJump(event.stream);
    if (revision !== expected && !jumps)
      throw bad(`revision ${revision} of ${event.stream} stands where ${expected} should`);
    this.#revisions.noteRevision(event.stream, revision);
    const definition = catalogue.get(event.type);
    if (definition !== undefined && event.schema <= definition.version) {
      const parsed = definition.data.safeParse(event.data);
      if (!parsed.success) {
        const [issue] = parsed.error.issues;
        throw bad(`${event.type} of ${event.stream}: data.${issue?.path.join('.')}: ${issue?.message}`);
      }
    }
    this.#events++;
  }

  close(): void {
    this.#revisions.close();
  }
}

/** The last revision of every stream, of which there may be more than fit in memory. */
class StreamRevisions {
  readonly #database = new DatabaseSync('');
  readonly #known;
  readonly #keep;
  #segment = new Map<StreamName, number>();
  /** How many times events were lost so far, and how many times before the last event of each stream. */
  #losses = 0;
  streams = 0;

  constructor() {
    this.#database.exec(
      'create table revisions (stream text primary key, last integer not null, losses integer not null) without rowid; begin',
    );
    this.#known = this.#database.prepare('select last, losses from revisions where stream = ?');
    this.#keep = this.#database.prepare('insert or replace into revisions (stream, last, losses) values (?, ?, ?)');
  }

  next(stream: StreamName): number {
    const inSegment = this.#segment.get(stream);
    if (inSegment !== undefined) return inSegment + 1;
    const known = this.#known.get(stream)?.['last'];
    if (known === undefined) this.streams++;
    return known === undefined ? 0 : Number(known) + 1;
  }

  /** Whether events of the stream may be among those that are lost between the last one and the next. */
  mayJump(stream: StreamName): boolean {
    if (this.#losses === 0 || this.#segment.has(stream)) return false;
    return Number(this.#known.get(stream)?.['losses'] ?? 0) < this.#losses;
  }

  noteRevision(stream: StreamName, revision: number): void {
    this.#segment.set(stream, revision);
  }

  eventsAreLost(): void {
    this.#losses++;
  }

  endSegment(): void {
    for (const [stream, last] of this.#segment) this.#keep.run(stream, last, this.#losses);
    this.#segment = new Map();
  }

  close(): void {
    this.#database.close();
  }
}
