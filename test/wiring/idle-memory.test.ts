import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { releaseMemoryAfterStart } from '../../src/wiring/idle-memory.ts';

const collect = vi.fn<NodeJS.GCFunction>();

describe('releaseMemoryAfterStart', () => {
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

  /** How often a process with this share of busy time collects garbage in an hour. */
  function collections(utilization: number): number {
    vi.spyOn(performance, 'eventLoopUtilization').mockReturnValue({ idle: 0, active: 0, utilization });
    releaseMemoryAfterStart();
    vi.advanceTimersByTime(3_600_000);
    return collect.mock.calls.length;
  }

  it('collects garbage once in a process that is idle after its start', () => {
    expect(collections(0.001)).toBe(1);
  });

  it('does nothing in a process that has work after its start, not even when it is idle later', () => {
    expect(collections(0.1)).toBe(0);
  });

  it('does nothing in a Node without `--expose-gc`', () => {
    vi.stubGlobal('gc', undefined);
    expect(collections(0.001)).toBe(0);
  });
});
