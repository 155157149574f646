/**
 * Searches of the semantic cache in process: time of a search, longest time on the event loop, time to add, memory,
 * recall. `npm install --no-save usearch@2.26.2` beforehand measures that library beside it.
 * Usage: node bench/semantic-cache.ts [entries] [dimensions]
 */
import { ScannedVectors } from '../src/commands/semantic-cache/scanned-vectors.ts';
import { normalised } from '../src/commands/semantic-cache/vector-store.ts';

const SEARCHES = 100;
const THRESHOLD = 0.92;
/** Cosine similarity of texts that have nothing in common; 0.2 for current models, 0.7 for older ones. */
const COMMON = Number(process.env['COMMON'] ?? 0.2);

interface Library {
  Index: new (options: {
    metric: string;
    dimensions: number;
    connectivity: number;
  }) => {
    add(key: bigint, vector: Float32Array): void;
    search(vector: Float32Array, count: number, threads: number): { keys: BigUint64Array; distances: Float32Array };
  };
}

const [entries = '10000', dimensions = '1536'] = process.argv.slice(2);
const count = Number(entries);
const size = Number(dimensions);

let seed = 1;
/** Uniform in [0, 1): the same numbers in each run. */
function random(): number {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

function gaussian(): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

function unit(values: ArrayLike<number>): Float32Array {
  const vector = normalised(values);
  if (vector === undefined) throw new Error('a vector without a direction');
  return vector;
}

const direction = () => unit(Float32Array.from({ length: size }, gaussian));
const center = direction();
const mixed = (one: Float32Array, other: Float32Array, share: number) =>
  unit(one.map((value, at) => value * Math.sqrt(share) + (other[at] ?? 0) * Math.sqrt(1 - share)));
/** Texts share a direction; paraphrases share most of theirs. */
const text = () => mixed(center, direction(), COMMON);
const vectors = Array.from({ length: count }, text);
const paraphrases = Array.from({ length: SEARCHES }, (_, at) =>
  mixed(vectors[Math.floor((at * count) / SEARCHES)] ?? center, direction(), 0.9),
);
const others = Array.from({ length: SEARCHES }, text);

function percentile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? 0;
}

const figure = (ms: number) => (ms < 1 ? `${(ms * 1000).toFixed(0)} µs` : `${ms.toFixed(1)} ms`);

async function timesOf(searches: readonly Float32Array[], search: (vector: Float32Array) => unknown) {
  const times: number[] = [];
  for (const vector of searches) {
    const from = performance.now();
    await search(vector);
    times.push(performance.now() - from);
  }
  return `p50 ${figure(percentile(times, 0.5))}, p99 ${figure(percentile(times, 0.99))}`;
}

async function measureScan(): Promise<void> {
  let sliceFrom = 0;
  let longest = 0;
  const turn = () => {
    longest = Math.max(longest, performance.now() - sliceFrom);
    return new Promise<void>((resolve) =>
      setImmediate(() => {
        sliceFrom = performance.now();
        resolve();
      }),
    );
  };
  const store = new ScannedVectors({ turn });
  const search = (vector: Float32Array) => {
    sliceFrom = performance.now();
    return store.nearest({ partition: 'p', vector, threshold: THRESHOLD, now: 0 });
  };
  const from = performance.now();
  for (const [id, vector] of vectors.entries()) {
    store.add({ digest: String(id), partition: 'p', vector, expiresAt: 1 });
  }
  const built = performance.now() - from;
  for (const vector of others.slice(0, 20)) await search(vector);
  longest = 0;
  let found = 0;
  const hits = await timesOf(paraphrases, async (vector) => {
    if ((await search(vector)) !== undefined) found += 1;
  });
  const misses = await timesOf(others, search);
  console.log(
    `scan: hit ${hits}; miss ${misses}; longest slice ${figure(longest)}; add ${figure(built / count)}; ` +
      `${(store.bytes / 2 ** 20).toFixed(0)} MiB; found ${found} of ${SEARCHES}`,
  );
}

async function measureLibrary(): Promise<void> {
  const name: string = 'usearch';
  const library = await (import(name) as Promise<Library>).catch(() => undefined);
  if (library === undefined) return;
  const before = process.memoryUsage().rss;
  const index = new library.Index({ metric: 'cos', dimensions: size, connectivity: 16 });
  const from = performance.now();
  for (const [id, vector] of vectors.entries()) index.add(BigInt(id), vector);
  const built = performance.now() - from;
  const memory = (process.memoryUsage().rss - before) / 2 ** 20;
  let found = 0;
  const hits = await timesOf(paraphrases, (vector) => {
    if (1 - (index.search(vector, 1, 1).distances[0] ?? 1) >= THRESHOLD) found += 1;
  });
  const misses = await timesOf(others, (vector) => index.search(vector, 1, 1));
  console.log(
    `usearch: hit ${hits}; miss ${misses}; add ${figure(built / count)}; ${memory.toFixed(0)} MiB; ` +
      `found ${found} of ${SEARCHES}`,
  );
}

console.log(`${count} vectors of ${size} dimensions, similarity of unrelated texts ${COMMON}`);
await measureScan();
if (count <= Number(process.env['LIBRARY_UP_TO'] ?? 10_000)) await measureLibrary();
