/** Limits of request bodies: of their size, and of the JSON in them. */
import { READ_MEMBERS } from '../commands/model-request/model-request.ts';
import { type Refusal, refusals } from '../commands/refusal.ts';
import { type BodyBounds, jsonProblem } from '../json/body-scan.ts';

/** Every route belongs to one kind, by its address. */

export interface BodyLimits {
  /** JSON of requests under `/v1`, which is held in memory. */
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

/** The bounds of the JSON in the body of a route. */
export function boundsOfRoute(url: string, bounds: BodyBounds): BodyBounds {
  if (!batches.has(url)) return bounds;
  const { depth, entries, objects, values } = bounds;
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
export function refusalOfJson(body: Buffer, url: string, bounds: BodyBounds): Refusal | undefined {
  const isPassedOn = url.startsWith('/v1/') || url.startsWith('/p/');
  const problem = jsonProblem(body, bounds, isPassedOn, READ_MEMBERS);
  if (problem === undefined) return undefined;
  if (problem.kind === 'repeated') return refusals.repeatedMember(problem.name);
  if (problem.kind === 'ambiguous') return refusals.ambiguousMember(problem.name);
  const [setting, what] = counted[problem.kind];
  return refusals.bodyTooComplex(problem.kind, `${bounds[problem.kind]} ${what}`, setting);
}
