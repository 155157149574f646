import { spawnSync } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createDiagnostics, readableLine } from '../src/wiring/diagnostics.ts';

function written(format: 'auto' | 'text' | 'json', isTerminal: boolean, level = 'info') {
  const lines: string[] = [];
  const logger = createDiagnostics({ level, format }, { write: (line: string) => void lines.push(line) }, isTerminal);
  return { logger, text: () => lines.join('') };
}

describe('diagnostics on standard error', () => {
  it.skipIf(!existsSync('/dev/full'))('lose their lines, and end nothing, while the disk is full', () => {
    const file = JSON.stringify(join(import.meta.dirname, '../src/wiring/diagnostics.ts'));
    const program = `import { createDiagnostics } from ${file};
      const logger = createDiagnostics({ level: 'info', format: 'json' });
      for (let line = 0; line < 100; line++) logger.warn('no room');
      setTimeout(() => console.log('still running'), 50);`;
    const full = openSync('/dev/full', 'w');
    const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', full],
    });
    expect(stdout.toString()).toBe('still running\n');
    expect(status).toBe(0);
  });
});

describe('the format of diagnostics', () => {
  it.each([
    ['auto', true, 'text'],
    ['auto', false, 'json'],
    ['text', false, 'text'],
    ['json', true, 'json'],
  ] as const)('%s, on a terminal: %s, is %s', (format, isTTY, expected) => {
    const { logger, text } = written(format, isTTY);
    logger.warn('provider openai: circuit breaker open');
    if (expected === 'text') expect(text()).toMatch(/^\d{4}-\S+Z WARN {2}provider openai: circuit breaker open\n$/);
    else expect(JSON.parse(text())).toMatchObject({ level: 40, msg: 'provider openai: circuit breaker open' });
  });

  it('keeps to the level', () => {
    const { logger, text } = written('text', false, 'error');
    logger.warn('unheard');
    expect(text()).toBe('');
  });
});

describe('an error that is a condition of operation', () => {
  const full = () => Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC', path: '/data/log' });
  const fullDatabase = () => Object.assign(new Error('views.db: database or disk is full'), { errcode: 13 });
  const readOnly = () => Object.assign(new Error('a read-only database'), { errcode: 1032 });
  const wrapped = () => new Error('not saved: ENOSPC', { cause: full() });

  it.each([
    ['of the system', full, { message: 'ENOSPC: no space left on device', code: 'ENOSPC', path: '/data/log' }],
    ['of SQLite', fullDatabase, { message: 'views.db: database or disk is full' }],
    ['of SQLite with an extended code', readOnly, { message: 'a read-only database' }],
    ['as the cause of another error', wrapped, { message: 'not saved: ENOSPC' }],
  ])('%s has its message and its path, and no stack', (_, make, expected) => {
    const { logger, text } = written('json', false);
    logger.warn({ err: make() }, 'tried again');
    expect(JSON.parse(text())).toMatchObject({ msg: 'tried again', err: expected });
    expect(text()).not.toContain('stack');
  });

  it('has its stack at level debug, as every other error has at any level', () => {
    const debug = written('json', false, 'debug');
    debug.logger.warn({ err: full() }, 'tried again');
    expect(JSON.parse(debug.text()).err.stack).toContain('diagnostics.test');
    const { logger, text } = written('json', false);
    logger.error(new TypeError('a defect', { cause: new Error('of the program') }));
    expect(JSON.parse(text()).err.stack).toContain('diagnostics.test');
  });
});

describe('a line of text', () => {
  it('has the error, its fields, and its stack below', () => {
    const { logger, text } = written('text', false);
    logger.error(
      { err: new Error('no such table'), method: 'GET', url: '/v1/models', note: 'two words' },
      'request failed',
    );
    const [line, ...stack] = text().trimEnd().split('\n');
    expect(line).toMatch(/ERROR request failed: no such table method=GET url=\/v1\/models note="two words"$/);
    expect(stack.length).toBeGreaterThan(0);
    expect(stack.every((frame) => frame.startsWith('    at '))).toBe(true);
  });

  it('has an error without a message of its own once', () => {
    const { logger, text } = written('text', false);
    logger.error(new Error('disk full'));
    expect(text().split('\n')[0]).toMatch(/ERROR disk full$/);
  });

  it('is one line, whatever the values contain', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (msg, value) => {
        const text = readableLine(JSON.stringify({ level: 30, time: '2026-01-01T00:00:00Z', msg, value }));
        expect(text.endsWith('\n')).toBe(true);
        expect(text.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
      }),
    );
  });
});
