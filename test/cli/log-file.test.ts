/** The log commands on the command line, for a log in files that a gateway is writing. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type NewEvent, streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { openLog } from '../../src/events/open-log.ts';
import { inheritedVariables } from '../e2e/gateway-process.ts';
import { chancery } from '../support/command-line.ts';
import { main } from '../support/main-program.ts';

const stream = streamName('exchange', 'a');

let folder: string;
let log: EventLog;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'chancery-log-'));
  log = await openLog(`file:${join(folder, 'data', 'log')}`);
  await append(1, 30);
});
afterAll(async () => {
  await log.close();
  rmSync(folder, { recursive: true });
});

async function append(from: number, to: number): Promise<void> {
  const events = Array.from({ length: to - from + 1 }, (_, n): NewEvent => {
    const data = { attempt: 1, index: from + n };
    return { type: 'chunk.received', schema: 1, data, context: { actor: 'system' }, body: Buffer.from('data: {}\n\n') };
  });
  await log.append([{ stream, events, expectedRevision: 'any' }]);
}

const options = () => ({ cwd: folder, env: inheritedVariables() });

async function until(child: ChildProcess, text: string): Promise<void> {
  let seen = '';
  for await (const piece of child.stdout?.iterator({ destroyOnReturn: false }) ?? []) {
    seen += piece;
    if (seen.includes(text)) return;
  }
  throw new Error(`ended without "${text}": ${seen}`);
}

describe('the log commands beside a gateway that writes', () => {
  test('tail finds the log where the gateway keeps it', async () => {
    const { code, stdout, stderr } = await chancery(folder, ['log', 'tail', '-n', '2', '--json']);
    expect([code, stderr]).toEqual([0, '']);
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.map(({ data, body }) => [data.index, body])).toEqual([
      [29, 'data: {}\n\n'],
      [30, 'data: {}\n\n'],
    ]);
  });

  test('cat shows a stream', async () => {
    const { code, stdout } = await chancery(folder, ['log', 'cat', 'exchange-a']);
    expect(code).toBe(0);
    expect(stdout.match(/exchange-a@\d+ {2}chunk\.received/g)).toHaveLength(30);
    expect(stdout).toContain('\n    data: {}\n');
  });

  test('cat of a stream that does not exist exits with 1', async () => {
    expect(await chancery(folder, ['log', 'cat', 'exchange-b'])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('there is no stream "exchange-b"'),
    });
  });

  test('tail --follow shows what the gateway appends, and ends with 0 on Ctrl-C', async () => {
    const child = spawn(process.execPath, [main, 'log', 'tail', '--follow', '-n', '1'], options());
    const exit = once(child, 'exit');
    await until(child, '"index":30');
    await append(31, 31);
    await until(child, '"index":31');
    child.kill('SIGINT');
    expect(await exit).toEqual([0, null]);
  });

  test('tail ends quietly when its reader goes away', async () => {
    const command = `"${process.execPath}" "${main}" log tail --after 0 --follow | head -n 1; echo "status \${PIPESTATUS[0]}"`;
    const child = spawn('bash', ['--norc', '-c', command], options());
    let output = '';
    let errors = '';
    child.stdout.on('data', (piece) => {
      output += piece;
    });
    child.stderr.on('data', (piece) => {
      errors += piece;
    });
    const exit = once(child, 'close');
    // The tail notices a closed pipe only when it writes.
    await once(child.stdout, 'data');
    let index = 100;
    const more = setInterval(() => void append(index, index++), 50);
    await exit;
    clearInterval(more);
    expect(output.trim().split('\n')).toEqual([expect.stringContaining('chunk.received'), 'status 0']);
    expect(errors).toBe('');
  });

  test('stat prints the figures of the log', async () => {
    const { code, stdout } = await chancery(folder, ['log', 'stat']);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^log +${join(folder, 'data', 'log')} `));
    expect(stdout).toMatch(/^events +[\d,]+, from \d{4}-.*Z to \d{4}-.*Z$/m);
    expect(stdout).toMatch(/^streams +exchange 1$/m);
    expect(stdout).toMatch(/being written$/m);
    expect(JSON.parse((await chancery(folder, ['log', 'stat', '--json'])).stdout)).toMatchObject({
      directory: join(folder, 'data', 'log'),
      streams: { exchange: 1 },
      segments: [{ first: '0000000000000001', sealed: false }],
    });
  });

  test('check of a whole log exits with 0', async () => {
    const { code, stdout, stderr } = await chancery(folder, ['log', 'check']);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/is whole: [\d,]+ events in 1 stream, .* in 1 segment\n/);
  });

  test('a missing log is an error with its path', async () => {
    const { code, stderr } = await chancery(folder, ['log', 'tail', '--data-dir', 'nowhere']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^chancery: the log file:.*nowhere\/log cannot be opened: /);
  });

  test('a bad configuration is reported before anything is opened', async () => {
    const { code, stderr } = await chancery(folder, ['log', 'tail', '--log-url', 'ftp://x']);
    expect([code, stderr]).toEqual([
      1,
      'chancery: log.url (--log-url): expected file:, esdb:, kurrentdb: or kafka: and an address, got "ftp://…"\n',
    ]);
  });
});

describe('chancery log check of a changed log', () => {
  /** A copy of the log with its newest segment changed. */
  /** Behind them the writer has laid out zeros. */
  const endOfFrames = (bytes: Buffer) => bytes.findLastIndex((byte) => byte !== 0) + 1;

  function changed(change: (path: string) => void): string {
    const copy = mkdtempSync(join(folder, 'copy-'));
    cpSync(join(folder, 'data', 'log'), copy, { recursive: true });
    const segment =
      readdirSync(copy)
        .filter((name) => name.endsWith('.seg'))
        .sort()
        .at(-1) ?? '';
    change(join(copy, segment));
    return `file:${copy}`;
  }

  test('a flipped byte is damage: it is named, and the exit code is 1', async () => {
    const url = changed((path) => {
      const bytes = readFileSync(path);
      const middle = Math.floor(endOfFrames(bytes) / 2);
      bytes[middle] = (bytes[middle] ?? 0) ^ 1;
      writeFileSync(path, bytes);
    });
    const { code, stdout, stderr } = await chancery(folder, ['log', 'check', '--log-url', url]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/ is damaged: \S+ at byte \d+.*: /);
    const json = await chancery(folder, ['log', 'check', '--json', '--log-url', url]);
    expect(json.code).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({ whole: false, problem: { offset: expect.any(Number) } });
  });

  test('a torn end is no damage, and is reported', async () => {
    const url = changed((path) => {
      const frames = readFileSync(path);
      writeFileSync(path, Buffer.concat([frames.subarray(0, endOfFrames(frames)), Buffer.from('torn')]));
    });
    const { code, stdout } = await chancery(folder, ['log', 'check', '--log-url', url]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/is whole: /);
    expect(stdout).toMatch(/^4 bytes behind the last whole batch: /m);
  });

  test('a missing log has exit code 2', async () => {
    const { code, stderr } = await chancery(folder, ['log', 'check', '--log-url', 'file:nowhere']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^chancery: there is no event log in .*nowhere\n$/);
  });

  test('of a log on an engine, the replica in the data folder is checked', async () => {
    const { code, stderr, stdout } = await chancery(folder, ['log', 'check', '--log-url', 'kafka://host:9092/p']);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toBe((await chancery(folder, ['log', 'check'])).stdout);
  });

  test('the replica of a log on an engine is not changed', async () => {
    const where = ['--log-url', 'kafka://host:9092/p', '--reason', 'a test'];
    const { code, stderr } = await chancery(folder, ['log', 'accept-loss', ...where]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('is the replica of a log on an engine')]);
  });

  test('the log in memory is refused', async () => {
    const { code, stderr } = await chancery(folder, ['log', 'check', '--log-url', 'memory:']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('requires a log in files')]);
  });
});
