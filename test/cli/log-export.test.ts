import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeParquet } from '../../src/analytics/log-parquet.ts';
import { UsageError } from '../../src/cli/command.ts';
import { logExport } from '../../src/cli/log-events.ts';
import type { RecordedEvent } from '../../src/events/event.ts';
import { eventToJson } from '../../src/events/event-json.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { openEmbeddedClickHouse } from '../../src/http/clickhouse/embedded-clickhouse.ts';
import { hasChdb } from '../analytics/embedded.ts';
import { writeHistory } from '../analytics/generated-history.ts';
import { type Screen, screen, typed } from './screen.ts';

const folder = mkdtempSync(join(tmpdir(), 'chancery-export-'));
afterAll(() => rmSync(folder, { recursive: true }));

const day = 24 * 3600_000;
const from = Date.UTC(2026, 0, 30, 12);
const log = new MemoryLog();
let events: RecordedEvent[];
beforeAll(async () => {
  await writeHistory(log, { exchanges: 90, seed: 7, from, everyMs: day / 30 });
  events = [];
  for await (const event of log.readAll()) events.push(event);
});

const asJson = (chosen: readonly RecordedEvent[]) =>
  chosen.map((event) => JSON.parse(JSON.stringify(eventToJson(event))));
const objects = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

function run(values: Record<string, string>, shown: Screen = screen(), lists: Record<string, string[]> = {}) {
  return logExport(typed({ values, lists }), log, 'kafka://u:secret@host/p', { writeParquet }, shown);
}

describe('chancery log export', () => {
  test('writes everything as one JSON object per line, in the order of the log', async () => {
    const shown = screen();
    expect(await run({}, shown)).toBe(0);
    expect(objects(shown.out())).toEqual(asJson(events));
    expect(shown.err()).toBe('');
  });

  test.each([
    ['days', { from: '2026-01-31', to: '2026-01-31' }, Date.UTC(2026, 0, 31), Date.UTC(2026, 1, 1)],
    [
      'times',
      { from: '2026-01-31T06:00:00Z', to: '2026-01-31T09:30Z' },
      Date.UTC(2026, 0, 31, 6),
      Date.UTC(2026, 0, 31, 9, 30),
    ],
    ['another zone', { to: '2026-01-31T01:00:00+01:00' }, 0, Date.UTC(2026, 0, 31)],
    ['no zone, which is UTC', { from: '2026-02-01 00:00' }, Date.UTC(2026, 1, 1), Number.POSITIVE_INFINITY],
    ['a time in which nothing was', { to: '2020-01-01' }, 0, 0],
  ])('of %s', async (_, values, start, end) => {
    const output = join(folder, 'days.ndjson');
    const shown = screen();
    expect(await run({ ...values, output }, shown)).toBe(0);
    const wanted = events.filter(({ at }) => at >= start && at < end);
    const text = readFileSync(output, 'utf8');
    expect(text === '' ? [] : objects(text)).toEqual(asJson(wanted));
    expect(shown.err()).toBe(`chancery: wrote ${wanted.length} event${wanted.length === 1 ? '' : 's'} to ${output}\n`);
  });

  test('of some types', async () => {
    const shown = screen();
    await run({}, shown, { type: ['usage.'] });
    expect(objects(shown.out())).toEqual(asJson(events.filter(({ type }) => type.startsWith('usage.'))));
  });

  test('writes CloudEvents, and no secret of the address', async () => {
    const shown = screen();
    expect(await run({ format: 'cloudevents' }, shown)).toBe(0);
    const written = objects(shown.out());
    expect(written).toHaveLength(events.length);
    for (const [index, event] of events.entries()) {
      expect(written[index]).toMatchObject({
        specversion: '1.0',
        id: event.id,
        type: event.type,
        subject: event.stream,
        sequence: event.position,
        datacontenttype: 'application/json',
        data: { data: event.data },
      });
      expect(Object.keys(written[index])).toSatisfy((names: string[]) =>
        names.every((name) => /^[a-z0-9]+$/.test(name)),
      );
      expect(written[index].source).not.toContain('secret');
    }
  });

  test('stopped half way it exits with 1 and leaves no file', async () => {
    const output = join(folder, 'stopped.ndjson');
    const shown = screen();
    shown.stop();
    expect(await run({ output }, shown)).toBe(1);
    expect(shown.err()).toMatch(/^chancery: stopped before the end, after 0 events\n$/);
    expect(readdirSync(folder).filter((name) => name.startsWith('stopped'))).toEqual([]);
  });

  test.each([
    [{ format: 'xml' }, '--format: expected ndjson, cloudevents, parquet, got "xml"'],
    [{ format: 'parquet' }, '--format parquet needs --output FILE: Parquet is a binary format'],
    [{ from: 'soon' }, '--from: expected a day like 2026-01-31 or a time like 2026-01-31T12:00:00Z, got "soon"'],
    [
      { to: '2026-13-01' },
      '--to: expected a day like 2026-01-31 or a time like 2026-01-31T12:00:00Z, got "2026-13-01"',
    ],
    [{ from: '2026-01-02', to: '2026-01-01' }, '--from must be before --to'],
  ])('%o is refused', async (values, message) => {
    await expect(run(values)).rejects.toThrow(new UsageError(message));
  });

  test.skipIf(!hasChdb)(
    'writes Parquet that says what the log says, to the last byte',
    { timeout: 60_000 },
    async () => {
      const output = join(folder, "it's.parquet");
      expect(await run({ format: 'parquet', output })).toBe(0);
      const engine = await openEmbeddedClickHouse({
        folder: join(folder, 'reader'),
        access: { databases: [], files: true },
      });
      const connection = engine.connect({ role: 'writer', readOnly: false });
      const columns = `position, id, type, schema, stream, toString(revision) AS revision, actor, user_path, request_id, data,
      hex(body) AS body, toUnixTimestamp64Micro(at) AS micros`;
      const { bytes } = await connection.query(
        `SELECT ${columns} FROM file('${output.replace("'", "\\'")}', 'Parquet')`,
        'JSONEachRow',
      );
      connection.close();
      await engine.close();
      expect(objects(Buffer.from(bytes).toString()).map((row) => ({ ...row, data: JSON.parse(row.data) }))).toEqual(
        events.map(({ context, ...event }) => ({
          position: event.position,
          id: event.id,
          type: event.type,
          schema: event.schema,
          stream: event.stream,
          revision: String(event.revision),
          actor: context.actor,
          user_path: context.userPath ?? '',
          request_id: context.requestId ?? '',
          data: JSON.parse(JSON.stringify(event.data)),
          body: event.body === undefined ? null : Buffer.from(event.body).toString('hex').toUpperCase(),
          micros: expect.toSatisfy((micros) => Math.abs(Number(micros) - event.at * 1000) <= 1),
        })),
      );
      expect(readdirSync(folder).filter((name) => name.includes('partial') || name.startsWith('.'))).toEqual([]);
    },
  );
});
