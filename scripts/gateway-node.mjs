/**
 * How the gateway's Node is started: with the usual young generation and V8's own growth of the heap. A smaller young
 * generation (8 MiB) with a slowly growing heap (`--heap-growing-percent=70`) kept 100 MB less resident and cost 12 to
 * 15 % more processor time per request. 32 MiB keeps 40 MB more, gains at most 5 %, and had a third of the p99 of the slow
 * growth at 500 connections; 16 MiB was not measured there. A gateway without work after its start returns
 * what it does not need of it with `gc` (`src/wiring/idle-memory.ts`).
 */
export const gatewayFlags = ['--max-semi-space-size=16', '--expose-gc'];

/**
 * By default glibc keeps an arena of free memory for each thread, and the thread pool has several. It also keeps freed
 * buffers of up to 32 MiB for later ones: with these thresholds, which then stay as they are, the files that a start
 * reads leave 7 MB less behind.
 */
export const gatewayEnvironment = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '262144',
  MALLOC_TRIM_THRESHOLD_: '8388608',
};
