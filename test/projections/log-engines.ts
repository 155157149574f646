/** The engines that need no server, opened for a test and removed after it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EventLog } from '../../src/events/log.ts';
import { openLog } from '../../src/events/open-log.ts';
import { someOf } from '../support/seed.ts';

export type Engine = 'memory' | 'file';
/** One of them in each run. */
export const engines = someOf<Engine>(['memory', 'file']);

export interface TestLog {
  readonly log: EventLog;
  /** Closes the log, once, however often it is called. */
  close(): Promise<void>;
  /** Closes the log and removes its files. */
  discard(): Promise<void>;
}

export async function openTestLog(engine: Engine): Promise<TestLog> {
  const dir = engine === 'file' ? mkdtempSync(join(tmpdir(), 'log-')) : undefined;
  const log = await openLog(dir === undefined ? 'memory:' : `file:${dir}`);
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= log.close();
    return closing;
  };
  return {
    log,
    close,
    async discard() {
      await close();
      if (dir !== undefined) rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
