/**
 * Where the gateways of tests have their log: in files, or on the engine that `TEST_LOG_ENGINE` names (`kafka` or
 * `eventstore`; `npm run test:engine`). Each data folder has a log of its own, which a restart on the folder keeps.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const testLogEngines = ['kafka', 'eventstore'] as const;

/** Number of gateways on each log on an engine, behind a proxy (`TEST_GATEWAYS`). */
export const gatewaysOfTests = Number(process.env['TEST_GATEWAYS'] ?? 1);

/** `CREDENTIALS_KEY` of the gateways of tests on an engine, which do not start without one. */
export const SHARED_KEY = 'credentials key of the gateways of tests';

/** Number of workers on each log in files, behind a proxy (`TEST_WORKERS`). */
export const workersOfTests = Number(process.env['TEST_WORKERS'] ?? 1);

/** Makes the `LOG_URL` of a log with that name. */
type UrlOf = (name: string) => string;

const urlOf = await engineOfTests(process.env['TEST_LOG_ENGINE'] ?? '');

/** `LOG_URL` for a gateway on this data folder; nothing when the log of tests is in files. */
export function logOfTests(dataDir: string | undefined): Record<string, string> {
  if (urlOf === undefined || dataDir === undefined) return {};
  return { LOG_URL: urlOf(logName(dataDir)), CREDENTIALS_KEY: SHARED_KEY };
}

/** In a file of the folder: a folder that was removed and made again has a new log, as with a log in files. */
function logName(dataDir: string): string {
  const file = join(dataDir, 'test-log-name');
  if (!existsSync(file)) {
    mkdirSync(dataDir, { recursive: true });
    writeFileSync(file, `test-${randomUUID()}`);
  }
  return readFileSync(file, 'utf8');
}

/** The modules are imported here because crash rounds use this file outside of vitest. */
async function engineOfTests(name: string): Promise<UrlOf | undefined> {
  if (name === '') return undefined;
  if (name === 'kafka') {
    const { kafkaForTests } = await import('./kafka-for-tests.ts');
    const kafka = await kafkaForTests();
    if ('missing' in kafka) throw new Error(`TEST_LOG_ENGINE=kafka: ${kafka.missing}`);
    return (topic) => `kafka://${kafka.brokers.join(',')}/${topic}`;
  }
  if (name === 'eventstore') {
    const { afterAll } = await import('vitest');
    const { startEventStore } = await import('./start-eventstore.ts');
    const store = await startEventStore();
    // Registered first, and therefore called last: after the gateways of the file have stopped.
    afterAll(() => store.stop());
    return (log) => store.url(log);
  }
  throw new Error(`TEST_LOG_ENGINE=${name}: expected ${testLogEngines.join(' or ')}`);
}
