/** Request bodies: the limits of their size and of the JSON in them, the memory that they share, and their encodings. */

import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import { READ_MEMBERS } from '../commands/model-request/model-request.ts';
import { type Refusal, refusals } from '../commands/refusal.ts';
import { type BodyBounds, jsonProblem } from '../json/body-scan.ts';

/** Every route belongs to one kind, by its address. */

export interface BodyLimits {
  /** JSON of requests under `/v1` and `/mcp`, which is held in memory. */
  readonly model: number;
  /** Recordings. Files in forms are streamed to the provider. */
  readonly audio: number;
  readonly image: number;
  /** Uploads to `/v1/files`, and bodies under `/p` that are streamed. */
  readonly file: number;
  /** The admin API. */
  readonly other: number;
}

const kinds: readonly (readonly [prefix: string, kind: keyof BodyLimits])[] = [
  ['/v1/audio/', 'audio'],
  ['/v1/images/', 'image'],
  ['/v1/files', 'file'],
  ['/v1/', 'model'],
  ['/p/', 'file'],
  ['/mcp', 'model'],
];

/** The limit of a route, in bytes after decoding. */
export function limitOfRoute(url: string, limits: BodyLimits): number {
  return limits[kinds.find(([prefix]) => url.startsWith(prefix))?.[1] ?? 'other'];
}

/** Most requests of a batch: Anthropic's limit. */
const BATCH_REQUESTS = 100_000;
/** A batch may be that many times as large as a request. */
const BATCH_FACTOR = 20;
const batches: ReadonlySet<string> = new Set(['/v1/batches', '/v1/messages/batches']);

/** The bounds of the JSON in the body of a batch. */
function boundsOfBatch({ depth, entries, objects, values }: BodyBounds): BodyBounds {
  return {
    depth,
    entries: Math.max(entries, BATCH_REQUESTS),
    objects: objects * BATCH_FACTOR,
    values: values * BATCH_FACTOR,
  };
}

/** The setting of each bound, and what it counts. */
const counted = {
  depth: ['REQUEST_MAX_DEPTH', 'levels of objects and lists'],
  entries: ['REQUEST_MAX_ENTRIES', 'objects in one list, or members in one object'],
  objects: ['REQUEST_MAX_OBJECTS', 'objects and lists'],
  values: ['REQUEST_MAX_VALUES', 'members and elements'],
} as const;

/**
 * Why the JSON in a body is not accepted; undefined for any other body. Providers differ in which of two members they
 * take, so names that occur twice, or stand for another member where the case of names is ignored, are refused where the
 * body may be passed on.
 */
export function refusalOfJson(body: Buffer, url: string, given: BodyBounds): Refusal | undefined {
  const bounds = batches.has(url) ? boundsOfBatch(given) : given;
  const isPassedOn = url.startsWith('/v1/') || url.startsWith('/p/');
  const problem = jsonProblem(body, bounds, isPassedOn, READ_MEMBERS);
  if (problem === undefined) return undefined;
  if (problem.kind === 'repeated') return refusals.repeatedMember(problem.name);
  if (problem.kind === 'ambiguous') return refusals.ambiguousMember(problem.name);
  const [setting, what] = counted[problem.kind];
  return refusals.bodyTooComplex(problem.kind, `${bounds[problem.kind]} ${what}`, setting);
}

/** Smaller bodies are not counted: `MAX_CONCURRENT_REQUESTS` bounds them. */
export const UNCOUNTED_BYTES = 256 * 1024;
/** Bodies decoded at the same time. A decoder may fill the limit of its route before the size is known. */
const DECODERS = 2;

export class BodyMemory {
  readonly #limitBytes: number;
  readonly #decoders = new Places(DECODERS);
  #held = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /**
   * Counts a body until its response is closed. A single body is always accepted.
   * @throws Refusal 503 when the held bodies and this one exceed the limit
   */
  hold(bytes: number, response: ServerResponse): void {
    if (bytes <= UNCOUNTED_BYTES) return;
    const release = this.take(bytes);
    // The response has closed already: no event would release the body.
    if (response.closed) release();
    else response.once('close', release);
  }

  /** As `hold`. @returns releases the body */
  take(bytes: number): () => void {
    if (bytes <= UNCOUNTED_BYTES) return () => {};
    if (this.#held > 0 && this.#held + bytes > this.#limitBytes) throw refusals.bodiesTooLarge(this.#limitBytes);
    this.#held += bytes;
    return () => {
      this.#held -= bytes;
    };
  }

  /** Runs a decoder when one of the places for decoders is free. */
  async decode<Decoded>(run: () => Promise<Decoded>): Promise<Decoded> {
    const free = await this.#decoders.take();
    try {
      return await run();
    } finally {
      free?.();
    }
  }
}

/** A limited number of places: work that needs much memory waits until one is free, in order. */
export class Places {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(places: number) {
    this.#free = places;
  }

  /** Work that waits for a place. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * @returns frees the place; further calls have no effect. Undefined when the signal was aborted before a place was
   * free.
   */
  async take(signal?: AbortSignal): Promise<(() => void) | undefined> {
    if (signal?.aborted) return undefined;
    if (this.#free > 0) this.#free -= 1;
    else if (!(await this.#turn(signal))) return undefined;
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#release();
    };
  }

  /** Resolves to whether a place was passed on. */
  #turn(signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (isPassedOn: boolean) => {
        this.#waiting.delete(passOn);
        signal?.removeEventListener('abort', leave);
        resolve(isPassedOn);
      };
      const passOn = () => settle(true);
      const leave = () => settle(false);
      this.#waiting.add(passOn);
      signal?.addEventListener('abort', leave);
    });
  }

  #release(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#free += 1;
    else next();
  }
}

// Encoded request bodies (RFC 9110 §8.4): decoded up to the limit of their route, or refused.

type Decoded = (error: Error | null, decoded: Buffer) => void;

interface Coding {
  whole(body: Buffer, options: { readonly maxOutputLength: number }, decoded: Decoded): void;
  stream(): Readable & NodeJS.WritableStream;
}

/** At most 8 MiB of memory for a frame's window, whatever the frame demands (RFC 9659). */
const zstdWindow = { params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } };
const gzip: Coding = { whole: zlib.gunzip, stream: () => zlib.createGunzip() };
const codings: ReadonlyMap<string, Coding> = new Map([
  ['gzip', gzip],
  ['x-gzip', gzip],
  ['deflate', { whole: zlib.inflate, stream: () => zlib.createInflate() }],
  ['br', { whole: zlib.brotliDecompress, stream: () => zlib.createBrotliDecompress() }],
  [
    'zstd',
    {
      whole: (body, options, decoded) => zlib.zstdDecompress(body, { ...zstdWindow, ...options }, decoded),
      stream: () => zlib.createZstdDecompress(zstdWindow),
    },
  ],
]);

/** The encodings that a client may send: the value of `Accept-Encoding` on a 415 (RFC 9110 §12.5.3). */
export const ACCEPTED_ENCODINGS = 'gzip, deflate, br, zstd';
/** Each further encoding costs a pass over the body and saves nothing. */
const MAX_CODINGS = 2;

/**
 * @returns the decoders of the body, for the last coding first; empty for a body that is not encoded
 * @throws Refusal 415 for an unknown coding
 */
function codingsIn(encoding: string): readonly Coding[] {
  const found: Coding[] = [];
  for (const name of encoding.toLowerCase().split(',')) {
    const coding = name.trim();
    if (coding === '' || coding === 'identity') continue;
    const known = codings.get(coding);
    if (known === undefined) throw refusals.unsupportedEncoding(coding, ACCEPTED_ENCODINGS);
    found.unshift(known);
  }
  if (found.length > MAX_CODINGS) throw refusals.unsupportedEncoding(encoding, ACCEPTED_ENCODINGS);
  return found;
}

/** @throws Refusal 415 before any of the body is read */
export function checkEncoding(headers: IncomingHttpHeaders): void {
  const encoding = headers['content-encoding'];
  if (encoding !== undefined) codingsIn(encoding);
}

/**
 * A body that is completely in memory. Removes the headers of its encoding and its encoded length. Decoding stops at
 * the limit, so a small body cannot become a large one in memory.
 * @throws Refusal 400 for a body that is not encoded as stated, 413 beyond the limit, 415
 */
export async function decodedRequestBody(
  headers: IncomingHttpHeaders,
  body: Buffer,
  limitBytes: number,
): Promise<Buffer> {
  let decoded = body;
  for (const { whole } of takeCodings(headers)) {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    whole(decoded, { maxOutputLength: limitBytes }, (error, output) =>
      error === null ? resolve(output) : reject(refusalOf(error, limitBytes)),
    );
    decoded = await promise;
  }
  return decoded;
}

/**
 * The same for a streamed body; its reader applies the limit. A body that is not encoded is returned unchanged.
 * @throws Refusal 415
 */
export function decodedStream<Body extends Readable>(headers: IncomingHttpHeaders, body: Body): Body | Readable {
  let decoded: Readable = body;
  for (const { stream } of takeCodings(headers)) {
    const decoder = stream();
    // The reader receives the error.
    pipeline(decoded, decoder, () => {});
    decoded = decoder;
  }
  return decoded;
}

function takeCodings(headers: IncomingHttpHeaders): readonly Coding[] {
  const encoding = headers['content-encoding'];
  if (encoding === undefined) return [];
  const found = codingsIn(encoding);
  delete headers['content-encoding'];
  delete headers['content-length'];
  return found;
}

function refusalOf(error: Error & { code?: string }, limitBytes: number): Refusal {
  if (error.code === 'ERR_BUFFER_TOO_LARGE') return refusals.bodyTooLarge(limitBytes);
  return refusals.malformedEncoding(error.message);
}
