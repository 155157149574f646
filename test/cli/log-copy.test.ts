/** `chancery log copy` on the command line: between folders, Kafka and EventStoreDB. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { inheritedVariables } from '../e2e/gateway-process.ts';
import { appendThings, readAll, until } from '../events/log-files.ts';
import { chancery } from '../support/command-line.ts';
import { kafkaOrSkip } from '../support/kafka-for-tests.ts';
import { makeLogToCopy } from '../support/log-to-copy.ts';
import { main } from '../support/main-program.ts';
import { someOf } from '../support/seed.ts';
import { eventStoreKind, type RunningEventStore, startEventStore } from '../support/start-eventstore.ts';

const brokers = await kafkaOrSkip();
const kind = await eventStoreKind();
let eventStore: RunningEventStore;
let source: string;
const folder = mkdtempSync(join(tmpdir(), 'chancery-copy-test-'));

beforeAll(async () => {
  eventStore = await startEventStore();
  source = join(folder, 'source');
  await makeLogToCopy(source);
});
afterAll(async () => {
  await eventStore.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

const onKafka = (topic = `copy-${randomUUID()}`) => `kafka://${(brokers ?? []).join(',')}/${topic}`;
const onEventStore = () => eventStore.url(`copy-${randomUUID()}`);

function newFolder(): string {
  const made = mkdtempSync(join(folder, 'test-'));
  onTestFinished(() => rmSync(made, { recursive: true, force: true, maxRetries: 3 }));
  return made;
}

const options = (cwd: string, env: Record<string, string> = {}) => ({
  cwd,
  env: { ...inheritedVariables(), TMPDIR: cwd, ...env },
});

const copy = (cwd: string, from: string, to: string, ...more: string[]) =>
  chancery(cwd, ['log', 'copy', '--from', from, '--to', to, ...more], options(cwd).env);

interface Copied {
  readonly position: string;
  readonly before: string;
  readonly copied: number;
  readonly sha256: string;
}

async function copied(cwd: string, from: string, to: string, ...more: string[]): Promise<Copied> {
  const { code, stdout, stderr } = await copy(cwd, from, to, '--json', ...more);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

async function eventsIn(dir: string) {
  const log = await ReadOnlyLog.open(dir);
  try {
    return await readAll(log);
  } finally {
    await log.close();
  }
}

async function append(dir: string, from: number, count: number): Promise<void> {
  const log = await EmbeddedLog.open(dir);
  await appendThings(log, from, count);
  await log.close();
}

describe('chancery log copy', () => {
  const engines = [
    { name: 'Kafka', url: onKafka, skip: brokers === undefined },
    { name: `EventStoreDB (${kind})`, url: onEventStore, skip: false },
  ];
  for (const { name, url, skip } of someOf(engines)) {
    test.skipIf(skip)(
      `${name}: onto it and back into files, with equal events and digests`,
      async () => {
        const cwd = newFolder();
        const engine = url();
        const there = await copied(cwd, source, engine);
        const back = await copied(cwd, engine, 'back');
        expect(back.sha256).toBe(there.sha256);
        expect(back.copied).toBe(Number(back.position));
        expect(await eventsIn(join(cwd, 'back'))).toEqual(await eventsIn(source));
        expect((await chancery(cwd, ['log', 'check', '--log-url', 'file:back'], options(cwd).env)).code).toBe(0);
        expect(readdirSync(cwd)).toEqual(['back']);
      },
      60_000,
    );

    test.skipIf(skip)(
      `${name}: a copy that is killed is continued`,
      async () => {
        const cwd = newFolder();
        const engine = url();
        const kill = async (ready: () => boolean) => {
          const args = [main, 'log', 'copy', '--from', source, '--to', engine, '--to-replica', 'replica'];
          const child = spawn(process.execPath, args, { ...options(cwd), stdio: 'ignore' });
          const exit = once(child, 'exit');
          await until(() => ready() || child.exitCode !== null);
          child.kill('SIGKILL');
          await exit;
        };
        const bytes = () => filesBytes(join(cwd, 'replica'));
        for (const size of [1, 30_000, 400_000]) await kill(() => bytes() > size);
        const rest = await copied(cwd, source, engine, '--to-replica', 'replica');
        expect(rest.copied).toBeLessThan(Number(rest.position));
        expect(await eventsIn(join(cwd, 'replica'))).toEqual(await eventsIn(source));
        expect(await copied(cwd, engine, 'back', '--from-replica', 'replica')).toMatchObject({ sha256: rest.sha256 });
      },
      90_000,
    );

    test.skipIf(skip)(
      `${name}: a destination with other events is refused with the first position`,
      async () => {
        const cwd = newFolder();
        const engine = url();
        await append(join(cwd, 'other'), 0, 5);
        await copied(cwd, join(cwd, 'other'), engine);
        const { code, stdout, stderr } = await copy(cwd, source, engine);
        expect([code, stdout]).toEqual([1, '']);
        expect(stderr).toMatch(/is not complete: the destination differs from the source at position 1: /);
      },
      60_000,
    );
  }

  test('copies what is new when it is repeated, from engine to engine too', async () => {
    const cwd = newFolder();
    const [one, other] = [onEventStore(), onEventStore()];
    await append(join(cwd, 'log'), 0, 30);
    await copied(cwd, 'log', one);
    await append(join(cwd, 'log'), 30, 12);
    const second = await copied(cwd, 'log', one);
    expect(second).toMatchObject({ before: '0000000000000030', position: '0000000000000042', copied: 12 });
    expect(await copied(cwd, one, other)).toMatchObject({ copied: 42, sha256: second.sha256 });
    expect(await copied(cwd, one, other)).toMatchObject({ copied: 0, sha256: second.sha256 });
    expect(await copied(cwd, other, 'files')).toMatchObject({ copied: 42, sha256: second.sha256 });
    const { stdout } = await copy(cwd, 'log', 'files');
    expect(stdout).toMatch(/^copied \S+log to \S+files: up to position 0000000000000042, 0000000000000042 before\n/);
    expect(stdout).toMatch(/^0 events in \d+\.\d s; read back and equal$/m);
    expect(stdout).toContain(`sha256 of all records: ${second.sha256}\n`);
  }, 60_000);

  test('a source that is being written is copied up to where it was', async () => {
    const cwd = newFolder();
    const log = await EmbeddedLog.open(join(cwd, 'log'), { segmentBytes: 4_000 });
    onTestFinished(() => log.close().catch(() => {}));
    await appendThings(log, 0, 100);
    let done = false;
    const writing = (async () => {
      for (let n = 100; !done; n++) await appendThings(log, n, 1);
    })();
    const first = await copied(cwd, 'log', 'copy');
    done = true;
    await writing;
    await log.close();
    const { position } = await copied(cwd, 'log', 'copy');
    expect(Number(first.position)).toBeGreaterThanOrEqual(100);
    expect(Number(position)).toBeGreaterThan(Number(first.position));
    expect(await eventsIn(join(cwd, 'copy'))).toEqual(await eventsIn(join(cwd, 'log')));
  }, 60_000);

  test('a killed copy in files is opened by no gateway and is continued', async () => {
    const cwd = newFolder();
    const place = join(cwd, 'copy');
    for (const size of [0, 50_000, 1_000_000]) {
      const args = [main, 'log', 'copy', '--from', source, '--to', 'copy'];
      const child = spawn(process.execPath, args, { ...options(cwd), stdio: 'ignore' });
      const exit = once(child, 'exit');
      await until(() => filesBytes(place) > size || child.exitCode !== null);
      child.kill('SIGKILL');
      expect(await exit).toEqual([null, 'SIGKILL']);
      await expect(EmbeddedLog.open(place)).rejects.toMatchObject({ code: 'log_is_unfinished_copy' });
    }
    expect((await copy(cwd, 'copy', 'third')).stderr).toContain('is an unfinished copy');
    await copied(cwd, source, 'copy');
    expect(await eventsIn(place)).toEqual(await eventsIn(source));
    await append(place, 0, 1);
    expect((await copy(cwd, source, 'copy')).stderr).toMatch(
      /differs from the source at position \d+: the source ends/,
    );
  }, 90_000);
});

function filesBytes(dir: string): number {
  if (!existsSync(dir)) return 0;
  const files = readdirSync(dir).filter((file) => /\.(seg|zst)$/.test(file));
  return files.reduce((sum, file) => sum + (statSync(join(dir, file), { throwIfNoEntry: false })?.size ?? 0), 0);
}

describe('chancery log copy refuses', () => {
  test('a source that has lost a segment', async () => {
    const cwd = newFolder();
    const log = await EmbeddedLog.open(join(cwd, 'log'), { segmentBytes: 4_000 });
    await appendThings(log, 0, 200);
    await log.settled();
    await log.close();
    const names = readdirSync(join(cwd, 'log')).filter((file) => file.endsWith('.zst'));
    rmSync(join(cwd, 'log', names[2] ?? ''));
    rmSync(join(cwd, 'log', (names[2] ?? '').replace('.zst', '.json')));
    const { code, stderr } = await copy(cwd, 'log', 'copy');
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/is not complete: the event log is damaged: segment \d+/),
    ]);
    expect(existsSync(join(cwd, 'copy'))).toBe(false);
  });

  test.each([
    [
      'a folder with other files',
      (dir: string) => writeFileSync(join(dir, 'letter'), ''),
      'is not empty and has no log',
    ],
    [
      'a replica',
      (dir: string) => writeFileSync(join(dir, 'replica.json'), '{}'),
      'is a replica of a log on an engine',
    ],
    ['a log with other events', (dir: string) => append(dir, 0, 3), 'differs from the source at position 1'],
  ])('%s as the destination', async (_, prepare, reason) => {
    const cwd = newFolder();
    mkdirSync(join(cwd, 'place'));
    await prepare(join(cwd, 'place'));
    const { code, stderr } = await copy(cwd, source, 'place');
    expect([code, stderr]).toEqual([1, expect.stringContaining(reason)]);
  });

  test('a destination that a gateway writes', async () => {
    const cwd = newFolder();
    const log = await EmbeddedLog.open(join(cwd, 'place'));
    onTestFinished(() => log.close());
    expect((await copy(cwd, source, 'place')).stderr).toContain('a gateway writes the log in');
  });

  test('a source without events, without a log, and itself', async () => {
    const cwd = newFolder();
    await append(join(cwd, 'empty'), 0, 0);
    expect((await copy(cwd, 'empty', 'copy')).stderr).toContain('the source has no events');
    expect((await copy(cwd, 'nothing', 'copy')).stderr).toContain('there is no event log in');
    expect((await copy(cwd, source, source)).stderr).toContain('is not apart from');
  });

  test.each([
    [[], '--from FOLDER or URL is required'],
    [['--from', 'log'], '--to FOLDER or URL is required'],
    [['--from', 'log', '--to', 'http://there'], '--to: expected a folder, kafka://… or esdb://…'],
    [['--from', 'log', '--to', 'copy', '--to-replica', 'r'], '--to-replica is for a log on an engine'],
  ])('the arguments %j with exit code 2', async (args, message) => {
    const cwd = newFolder();
    const { code, stderr } = await chancery(cwd, ['log', 'copy', ...args], options(cwd).env);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test('a user without a password, named by the variable of its side', async () => {
    const cwd = newFolder();
    const args = ['log', 'copy', '--from', 'kafka://h/a', '--to', 'kafka://h/b'];
    const from = await chancery(cwd, args, options(cwd, { LOG_FROM_USER: 'u', LOG_PASSWORD: 'of-the-other-side' }).env);
    expect([from.code, from.stderr]).toEqual([1, expect.stringContaining('LOG_FROM_PASSWORD): a user needs one')]);
    expect(from.stderr).not.toContain('of-the-other-side');
    const wrong = await chancery(
      cwd,
      ['log', 'copy', '--from', 'kafka://u:secret@/a', '--to', 'copy'],
      options(cwd).env,
    );
    expect([wrong.code, wrong.stderr]).toEqual([
      1,
      expect.stringMatching(/\(--from\): .* LOG_FROM_USER and LOG_FROM_/),
    ]);
    expect(wrong.stderr).not.toContain('secret');
  });
});
