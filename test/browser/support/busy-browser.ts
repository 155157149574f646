/** How long the tasks of a page's main thread take, and how much memory it keeps. */
import type { Page } from 'playwright-core';

interface TraceEvent {
  readonly name: string;
  readonly tid: number;
  readonly pid: number;
  /** Microseconds of the thread's own processor time; absent where the system cannot measure it. */
  readonly tdur?: number;
  /** Microseconds. */
  readonly dur?: number;
  readonly args?: { readonly name?: string };
}

export interface Tasks {
  readonly count: number;
  /** Milliseconds of processor time of the longest task. */
  readonly longest: number;
  /** Those above 50 ms of processor time. */
  readonly long: readonly number[];
}

export interface TaskRecording {
  stop(): Promise<Tasks>;
}

/**
 * Records the tasks of the page's main thread. Processor time is counted, not the time of day: on a machine whose
 * processors are all busy, a short task takes long because it waits.
 */
export async function recordTasks(page: Page): Promise<TaskRecording> {
  const session = await page.context().newCDPSession(page);
  const events: TraceEvent[] = [];
  session.on('Tracing.dataCollected', ({ value }) => events.push(...(value as unknown as TraceEvent[])));
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: {
      includedCategories: ['toplevel', '__metadata', 'disabled-by-default-devtools.timeline'],
      recordMode: 'recordContinuously',
    },
  });
  return {
    async stop() {
      const complete = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve));
      await session.send('Tracing.end');
      await complete;
      await session.detach();
      const threads = new Set(
        events
          .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
          .map(({ pid, tid }) => `${pid} ${tid}`),
      );
      const took = events
        .filter(({ name, pid, tid }) => name === 'RunTask' && threads.has(`${pid} ${tid}`))
        .map(({ tdur, dur = 0 }) => (tdur ?? dur) / 1000);
      return {
        count: took.length,
        longest: Math.max(0, ...took),
        long: took.filter((ms) => ms > 50),
      };
    },
  };
}

/** Bytes of the JavaScript heap that are in use after a collection, and the number of DOM nodes. */
export async function memoryOf(page: Page): Promise<{ readonly heap: number; readonly nodes: number }> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  await session.send('Performance.enable');
  const { metrics } = await session.send('Performance.getMetrics');
  await session.detach();
  const value = (name: string) => metrics.find((metric) => metric.name === name)?.value ?? 0;
  return { heap: value('JSHeapUsedSize'), nodes: value('Nodes') };
}

/** Milliseconds of processor time that the tasks of the page's main thread take during `action`. */
export async function processorTimeOf(page: Page, action: () => Promise<unknown>): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const soFar = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0) * 1000;
  };
  const before = await soFar();
  await action();
  const took = (await soFar()) - before;
  await session.detach();
  return took;
}
