import { describe, expect, test } from 'vitest';
import { processorMsOf, Watchdog } from '../../src/analytics/watchdog.ts';

/** A process whose clock and processor time are set by hand. */
function watched() {
  const state = { now: 0, processor: 0 as number | undefined };
  const watchdog = new Watchdog({ now: () => state.now, processorMs: () => state.processor });
  /** Runs a check each second. Returns its first finding. */
  const pass = (seconds: number, processorMsPerSecond: number): string | undefined => {
    for (let second = 0; second < seconds; second++) {
      state.now += 1000;
      if (state.processor !== undefined) state.processor += processorMsPerSecond;
      const reason = watchdog.reasonToEnd();
      if (reason !== undefined) return reason;
    }
    return undefined;
  };
  return { watchdog, pass, state };
}

describe('the watchdog', () => {
  test('ends a process that takes 15 s of processor time without an answer', () => {
    const { watchdog, pass } = watched();
    watchdog.noteSignal();
    expect(pass(17, 1000)).toBeUndefined();
    expect(pass(2, 1000)).toMatch(/while it took 15 s of processor time/);
  });

  test('does not end a process that gets no processor time', () => {
    const { watchdog, pass } = watched();
    watchdog.noteSignal();
    expect(pass(119, 15)).toBeUndefined();
    watchdog.noteSignal();
    expect(pass(119, 15)).toBeUndefined();
  });

  test('ends a process that has not answered for 120 s', () => {
    const { watchdog, pass } = watched();
    watchdog.noteSignal();
    expect(pass(119, 0)).toBeUndefined();
    expect(pass(1, 0)).toBe('it has not answered for 120 s');
  });

  test('leaves a process alone that answers, however much processor time it takes', () => {
    const { watchdog, pass } = watched();
    for (let second = 0; second < 1000; second++) {
      watchdog.noteSignal();
      expect(pass(1, 12_000)).toBeUndefined();
    }
  });

  test('gives a start more time: there may be much to open', () => {
    const { pass } = watched();
    expect(pass(599, 1000)).toBeUndefined();
    expect(pass(1, 1000)).toBe('it has not answered for 600 s');
  });

  test('uses the clock alone where processor times are unknown', () => {
    const { watchdog, pass, state } = watched();
    state.processor = undefined;
    watchdog.noteSignal();
    expect(pass(119, 0)).toBeUndefined();
    expect(pass(1, 0)).toBe('it has not answered for 120 s');
  });

  test.skipIf(process.platform !== 'linux')('counts the processor time of a process by itself', () => {
    const before = processorMsOf(process.pid) ?? Number.NaN;
    const until = process.cpuUsage().user + 100_000;
    while (process.cpuUsage().user < until);
    expect((processorMsOf(process.pid) ?? 0) - before).toBeGreaterThanOrEqual(80);
    expect(processorMsOf(2 ** 30)).toBeUndefined();
  });
});
