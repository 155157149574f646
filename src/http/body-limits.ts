/** Size limits of request bodies. Every route belongs to one kind, by its address. */

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
