/** Computes allocated bytes from the sizes of the heap before and after each garbage collection. */

/** Bytes in use. */
export interface HeapUse {
  readonly heap: number;
  /** Of buffers and strings outside the heap, which only a collection frees. */
  readonly external: number;
}

/** One collection, as `v8.GCProfiler` reports it. */
export interface Collection {
  readonly gcType: string;
  /** In microseconds, on the thread that runs JavaScript. */
  readonly cost: number;
  readonly beforeGC: { readonly heapStatistics: HeapStatistics };
  readonly afterGC: { readonly heapStatistics: HeapStatistics };
}

interface HeapStatistics {
  readonly usedHeapSize: number;
  readonly externalMemory: number;
}

export interface Allocation {
  readonly heapBytes: number;
  readonly externalBytes: number;
  readonly collections: number;
  /** Pauses: collection work on the thread that runs JavaScript. */
  readonly pauseMs: number;
  readonly longestPauseMs: number;
}

/** The growth between the end of one collection and the start of the next was allocated. */
export function allocationOf(before: HeapUse, collections: readonly Collection[], after: HeapUse): Allocation {
  let heapBytes = 0;
  let externalBytes = 0;
  let last = before;
  const grown = (now: HeapUse) => {
    heapBytes += Math.max(0, now.heap - last.heap);
    externalBytes += Math.max(0, now.external - last.external);
  };
  for (const { beforeGC, afterGC } of collections) {
    grown(useOf(beforeGC.heapStatistics));
    last = useOf(afterGC.heapStatistics);
  }
  grown(after);
  return {
    heapBytes,
    externalBytes,
    collections: collections.length,
    pauseMs: collections.reduce((sum, { cost }) => sum + cost, 0) / 1000,
    longestPauseMs: Math.max(0, ...collections.map(({ cost }) => cost)) / 1000,
  };
}

function useOf({ usedHeapSize, externalMemory }: HeapStatistics): HeapUse {
  return { heap: usedHeapSize, external: externalMemory };
}
