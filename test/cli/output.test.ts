/** The bytes that a terminal gets, and the places that write them. */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { logCat, logExport, logTail } from '../../src/cli/log-events.ts';
import { viewsStatus } from '../../src/cli/views.ts';
import { skippedStream, viewEventSkipped } from '../../src/events/catalogue/gateway.ts';
import { type NewEvent, type StreamName, streamName } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { main } from '../support/main-program.ts';
import { type Screen, screen, typed } from './screen.ts';

/** A title for the terminal, a clear screen in C1, an override of the direction, a line over the line. */
const EVIL = 'a\u001b]0;owned\u0007b\u009b2Jc\u202ed\u2066e\u007ff\rg';
const STEERS = /[\p{Cc}\p{Bidi_Control}]/u;

const evil = `exchange-${EVIL}` as StreamName;
const context = { actor: 'system' } as const;

async function evilLog(): Promise<MemoryLog> {
  const log = new MemoryLog();
  const event: NewEvent = {
    type: 'chunk.received',
    schema: 1,
    data: { text: EVIL, [EVIL]: 1 },
    context,
    body: Buffer.from(`${EVIL}\n{"x":"${EVIL}"}`),
    at: 0,
  };
  const skipped = viewEventSkipped.create(
    { view: 'keys', position: '1', eventType: `x${EVIL}`, eventStream: evil, reason: EVIL, by: EVIL },
    context,
  );
  await log.append([
    { stream: streamName('exchange', 'a'), events: [event], expectedRevision: 'any' },
    { stream: skippedStream, events: [skipped], expectedRevision: 'any' },
  ]);
  return log;
}

function expectHarmless(shown: Screen): void {
  const text = `${shown.out()}${shown.err()}`;
  expect(text).toContain('owned');
  for (const line of text.split('\n')) expect(line).not.toMatch(STEERS);
}

const parts = { writeParquet: async () => {} };

describe('a terminal', () => {
  test.each([
    [
      'log cat',
      [],
      (shown: Screen, log: MemoryLog, on: string[]) => logCat(typed({ operands: ['exchange-a'], on }), log, shown),
    ],
    [
      'log cat --full',
      ['full'],
      (shown: Screen, log: MemoryLog, on: string[]) => logCat(typed({ operands: ['exchange-a'], on }), log, shown),
    ],
    [
      'log cat --json',
      ['json'],
      (shown: Screen, log: MemoryLog, on: string[]) => logCat(typed({ operands: ['exchange-a'], on }), log, shown),
    ],
    [
      'log cat of no stream',
      [],
      (shown: Screen, log: MemoryLog, on: string[]) => logCat(typed({ operands: [evil], on }), log, shown),
    ],
    ['log tail', [], (shown: Screen, log: MemoryLog, on: string[]) => logTail(typed({ on }), log, shown)],
    [
      'log export',
      [],
      (shown: Screen, log: MemoryLog, on: string[]) => logExport(typed({ on }), log, 'memory:', parts, shown),
    ],
    [
      'log export --format cloudevents',
      [],
      (shown: Screen, log: MemoryLog) =>
        logExport(typed({ values: { format: 'cloudevents' } }), log, 'memory:', parts, shown),
    ],
    [
      'views status',
      [],
      (shown: Screen, log: MemoryLog, on: string[]) =>
        viewsStatus(typed({ on }), log, '/nowhere', async () => ({ unknown: EVIL }), shown),
    ],
    [
      'views status --json',
      ['json'],
      (shown: Screen, log: MemoryLog, on: string[]) =>
        viewsStatus(typed({ on }), log, '/nowhere', async () => ({ unknown: EVIL }), shown),
    ],
  ] as const)('is not steered by what %s prints', async (_name, on, run) => {
    const shown = screen();
    await run(shown, await evilLog(), [...on]);
    expectHarmless(shown);
  });

  test('is not controlled by the typed arguments', () => {
    let stderr = '';
    try {
      execFileSync(process.execPath, [main, 'log', EVIL], { stdio: 'pipe' });
    } catch (error) {
      stderr = String((error as { stderr: Buffer }).stderr);
    }
    expect(stderr).toContain('owned');
    for (const line of stderr.split('\n')) expect(line).not.toMatch(STEERS);
  });

  test('gets bodies with the recorded integers', async () => {
    const log = new MemoryLog();
    const stream = streamName('exchange', 'b');
    const body = Buffer.from('{"id":9007199254740993,"deep":[-9223372036854775808]}');
    const event: NewEvent = { type: 'chunk.received', schema: 1, data: {}, context, body, at: 0 };
    await log.append([{ stream, events: [event], expectedRevision: 'any' }]);
    const shown = screen();
    await logCat(typed({ operands: [stream], on: ['full'] }), log, shown);
    expect(shown.out()).toContain('"id": 9007199254740993');
    expect(shown.out()).toContain('-9223372036854775808');
  });

  test('gets JSON with the same values', async () => {
    const shown = screen();
    await logTail(typed({ on: ['json'] }), await evilLog(), shown);
    expect(JSON.parse(shown.lines()[0] ?? '').data).toEqual({ text: EVIL, [EVIL]: 1 });
  });
});

test('the program writes to its terminal in one place, and diagnostics in another', () => {
  const src = join(import.meta.dirname, '..', '..', 'src');
  const writers = globSync('**/*.ts', { cwd: src }).filter((file) =>
    /\bconsole\.|process\.std(out|err)\.write|\b(stdout|stderr)\.write\(/.test(readFileSync(join(src, file), 'utf8')),
  );
  // The process of a plugin has no terminal: the gateway reads its output and limits it.
  const inPlugins = 'plugins/child/running-hooks.ts';
  expect(writers.sort()).toEqual(['cli/terminal.ts', inPlugins]);
});
