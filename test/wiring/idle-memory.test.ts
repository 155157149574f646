import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { releaseMemoryWhenIdle } from '../../src/wiring/idle-memory.ts';

const MIB = 1024 * 1024;
const collect = vi.fn<NodeJS.GCFunction>();

describe('releaseMemoryWhenIdle', () => {
  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal('gc', collect);
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    collect.mockReset();
  });

  /** How often a process with this share of busy time and this heap collects garbage in half a minute. */
  function collections(utilization: number, heap: { total: number; used: number }): number {
    vi.spyOn(performance, 'eventLoopUtilization').mockReturnValue({ idle: 0, active: 0, utilization });
    const usage = { ...process.memoryUsage(), heapTotal: heap.total * MIB, heapUsed: heap.used * MIB };
    vi.spyOn(process, 'memoryUsage').mockImplementation(Object.assign(() => usage, { rss: () => 0 }));
    releaseMemoryWhenIdle();
    vi.advanceTimersByTime(30_000);
    return collect.mock.calls.length;
  }

  it('collects garbage when the process is idle and holds memory that it does not use, at most every ten minutes', () => {
    expect(collections(0.001, { total: 65, used: 38 })).toBe(1);
    vi.advanceTimersByTime(600_000);
    expect(collect).toHaveBeenCalledTimes(2);
  });

  it('does nothing in a busy process', () => {
    expect(collections(0.1, { total: 65, used: 38 })).toBe(0);
  });

  it('does nothing when there is little to return', () => {
    expect(collections(0.001, { total: 40, used: 38 })).toBe(0);
  });

  it('does nothing in a Node without `--expose-gc`', () => {
    vi.stubGlobal('gc', undefined);
    expect(collections(0.001, { total: 65, used: 38 })).toBe(0);
  });
});
