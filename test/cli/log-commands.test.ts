import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/cli/command.ts';
import { logCat, logTail } from '../../src/cli/log-events.ts';
import { requestReceived } from '../../src/events/catalogue/exchange.ts';
import { type NewEvent, type StreamName, streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { exchangeOf } from '../projections/exchange-history.ts';
import { screen, typed } from './screen.ts';

const context = { actor: 'system' } as const;

function event(type: string, data: object = {}, body?: string | Uint8Array): NewEvent {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  return { type, schema: 1, data, context, body: bytes, at: Date.UTC(2026, 0, 31, 12, 0, 0, 5) };
}

async function append(log: EventLog, stream: StreamName, ...events: NewEvent[]): Promise<void> {
  await log.append([{ stream, events, expectedRevision: 'any' }]);
}

const first = streamName('exchange', 'a');
const second = streamName('response', 'b');

/** 100 events: every tenth on the response stream, the others on the exchange. */
async function hundred(): Promise<MemoryLog> {
  const log = new MemoryLog();
  for (let n = 1; n <= 100; n++) {
    if (n % 10 === 0) await append(log, second, event('response.stored', { n }));
    else await append(log, first, event('chunk.received', { attempt: 1, index: n }));
  }
  return log;
}

describe('chancery log tail', () => {
  test('shows the newest 20 events, one line each: time, position, stream@revision, type, data', async () => {
    const shown = screen();
    expect(await logTail(typed(), await hundred(), shown)).toBe(0);
    expect(shown.lines()).toHaveLength(20);
    expect(shown.lines()[0]).toBe(
      '2026-01-31 12:00:00.005000Z  0000000000000081  exchange-a@72  chunk.received  {"attempt":1,"index":81}',
    );
    expect(shown.lines().at(-1)).toContain('0000000000000100  response-b@9  response.stored  {"n":100}');
  });

  test.each([
    ['-n 3', { values: { last: '3' } }, [98, 99, 100]],
    ['-n 0', { values: { last: '0' } }, []],
    ['--after 97', { values: { after: '97' } }, [98, 99, 100]],
    ['--after with zeros', { values: { after: '0000000000000098' } }, [99, 100]],
    ['--after the end', { values: { after: '100' } }, []],
    ['--type', { lists: { type: ['response.stored'] }, values: { last: '2' } }, [90, 100]],
    ['--type twice', { lists: { type: ['response.', 'chunk.received'] }, values: { last: '2' } }, [99, 100]],
    ['--type family.*', { lists: { type: ['response.*'] }, values: { last: '2' } }, [90, 100]],
    ['--type beginning*', { lists: { type: ['resp*'] }, values: { last: '2' } }, [90, 100]],
    ['--type *', { lists: { type: ['*'] }, values: { last: '1' } }, [100]],
    ['--stream', { lists: { stream: ['exchange-'] }, values: { last: '2' } }, [98, 99]],
  ])('%s', async (_, args, positions) => {
    const shown = screen();
    await logTail(typed(args), await hundred(), shown);
    expect(shown.lines().map((line) => Number(line.split('  ')[1]))).toEqual(positions);
  });

  test('--after 0 shows everything', async () => {
    const shown = screen();
    await logTail(typed({ values: { after: '0' } }), await hundred(), shown);
    expect(shown.lines()).toHaveLength(100);
  });

  test('reads back as far as it must for rare events', async () => {
    const log = new MemoryLog();
    await append(log, second, event('response.stored', { n: 1 }));
    for (let n = 0; n < 3; n++) await append(log, first, ...Array.from({ length: 400 }, () => event('chunk.received')));
    const shown = screen();
    await logTail(typed({ lists: { type: ['response.stored'] } }), log, shown);
    expect(shown.lines()).toHaveLength(1);
  });

  test('an empty log shows nothing', async () => {
    const shown = screen();
    expect(await logTail(typed(), new MemoryLog(), shown)).toBe(0);
    expect(shown.out()).toBe('');
  });

  test('--follow shows later events, until it is stopped', async () => {
    const log = await hundred();
    const shown = screen();
    const tail = logTail(
      typed({ on: ['follow'], values: { last: '1' }, lists: { type: ['response.stored'] } }),
      log,
      shown,
    );
    await shown.until((out) => out.includes('response-b@9'));
    await append(log, first, event('chunk.received'));
    await append(log, second, event('response.stored', { n: 'new' }));
    await shown.until((out) => out.includes('"new"'));
    shown.stop();
    expect(await tail).toBe(0);
    expect(shown.lines()).toHaveLength(2);
  });

  test('--json prints one object per line', async () => {
    const log = new MemoryLog();
    await append(
      log,
      first,
      event('chunk.received', { index: 0 }, 'data: {}\n\n'),
      event('x.y', {}, new Uint8Array([255])),
    );
    const shown = screen();
    await logTail(typed({ on: ['json'] }), log, shown);
    const [text, binary] = shown.lines().map((line) => JSON.parse(line));
    expect(text).toMatchObject({
      type: 'chunk.received',
      schema: 1,
      stream: 'exchange-a',
      revision: '0',
      position: '0000000000000001',
      at: '2026-01-31T12:00:00.005000Z',
      actor: 'system',
      data: { index: 0 },
      body: 'data: {}\n\n',
    });
    expect(binary).toMatchObject({ revision: '1', body_base64: '/w==' });
    expect(binary).not.toHaveProperty('body');
  });

  test('long data is cut, and shown whole with --full', async () => {
    const log = new MemoryLog();
    await append(log, first, event('chunk.received', { text: 'x'.repeat(1000) }, 'the body'));
    const short = screen();
    await logTail(typed(), log, short);
    expect(short.lines()[0]).toHaveLength(200);
    const full = screen();
    await logTail(typed({ on: ['full'] }), log, full);
    expect(full.lines()[0]).toContain('x'.repeat(1000));
    expect(full.lines()[1]).toBe('    the body');
  });

  test.each([
    ['--after soon', { values: { after: 'soon' } }, /positions of this log look like 0000000000000100/],
    ['--last many', { values: { last: 'many' } }, /expected a whole number/],
    ['--type requst.received', { lists: { type: ['requst.received'] } }, /did you mean "request.received"\?/],
    ['--type nothing.', { lists: { type: ['nothing.'] } }, /no event type is "nothing\."/],
  ])('%s is refused', async (_, args, message) => {
    const log = await hundred();
    await expect(logTail(typed(args), log, screen())).rejects.toThrow(UsageError);
    await expect(logTail(typed(args), log, screen())).rejects.toThrow(message);
  });
});

describe('chancery log cat', () => {
  const bodyOf = async (body: string | Uint8Array, on: readonly string[] = []) => {
    const log = new MemoryLog();
    await append(log, first, event('chunk.received', {}, body));
    const shown = screen();
    await logCat(typed({ operands: [first], on }), log, shown);
    return shown.lines().slice(1);
  };

  test('shows every event of the stream in order', async () => {
    const shown = screen();
    expect(await logCat(typed({ operands: [second] }), await hundred(), shown)).toBe(0);
    expect(shown.lines().map((line) => line.split('  ')[2])).toEqual(
      Array.from({ length: 10 }, (_, n) => `response-b@${n}`),
    );
  });

  test('a stream that does not exist is an error with its name', async () => {
    const shown = screen();
    expect(await logCat(typed({ operands: ['exchange-nope'] }), await hundred(), shown)).toBe(1);
    expect(shown.out()).toBe('');
    expect(shown.err()).toContain('there is no stream "exchange-nope"');
  });

  test('a JSON body is indented', async () => {
    expect(await bodyOf('{"a":[1]}')).toEqual(['    {', '      "a": [', '        1', '      ]', '    }']);
  });

  test('stream frames are shown unchanged', async () => {
    expect(await bodyOf('event: x\r\ndata: {"a":1}\r\n\r\n')).toEqual(['    event: x', '    data: {"a":1}']);
  });

  test('text that is only the beginning of JSON is shown unchanged', async () => {
    expect(await bodyOf('{"cut off')).toEqual(['    {"cut off']);
  });

  test('of bytes that are no text it shows their number', async () => {
    expect(await bodyOf(new Uint8Array([0xff, 0xfe]))).toEqual(['    <2 bytes of binary>']);
  });

  test('control characters do not reach the terminal', async () => {
    expect(await bodyOf('a\u001b[31mred\u0007\u009b')).toEqual(['    a\\u001b[31mred\\u0007\\u009b']);
  });

  test('a long body is cut, and shown whole with --full', async () => {
    const long = Array.from({ length: 100 }, (_, n) => `line ${n}`).join('\n');
    expect((await bodyOf(long)).at(-1)).toBe('    … 60 more lines (--full shows them)');
    expect(await bodyOf(long, ['full'])).toHaveLength(100);
  });

  test('an event of the catalogue is shown like any other', async () => {
    const log = new MemoryLog();
    const data = {
      dialect: 'chat',
      method: 'POST',
      path: '/v1/chat/completions',
      headers: {},
      stream: false,
      authMethod: 'master_key',
      capture: 'full',
    } as const;
    await append(log, first, requestReceived.create(data, context, Buffer.from('{}')));
    const shown = screen();
    await logCat(typed({ operands: [first] }), log, shown);
    expect(shown.lines()[0]).toContain('exchange-a@0  request.received  {"dialect":"chat"');
  });

  test('verdicts of guardrails begin with phase, verdict and code; delivered frames are shown unchanged', async () => {
    const log = new MemoryLog();
    const { stream, applied, frame } = exchangeOf('a');
    const revised = applied('block', { phase: 'stream', attempt: 1 }, '{"changed":1}');
    await append(log, stream, revised, frame('data: {"a":1}\n\n'));
    const shown = screen();
    await logCat(typed({ operands: [stream] }), log, shown);
    const [verdict, , , , delivered, bytes] = shown.lines();
    expect(verdict).toMatch(
      /guardrail\.applied {2}{.*"phase":"stream".*"verdict":"block","decidedBy":"mask","code":"block_code"/,
    );
    expect(delivered).toContain('exchange-a@1  frame.delivered  {"attempt":1,"index":0}');
    expect(bytes).toBe('    data: {"a":1}');
  });
});
