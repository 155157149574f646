import { readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { gatewayStarted, gatewayStopped } from '../../src/events/catalogue/gateway.ts';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import type { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { statLog } from '../../src/events/embedded/stat-log.ts';
import { streamName } from '../../src/events/event.ts';
import { appendThings, fileOf, filesOf, openTestLog, temporaryDirectory, thing, until } from './log-files.ts';

async function logOf(count: number): Promise<{ dir: string; log: EmbeddedLog }> {
  const dir = temporaryDirectory();
  const log = await openTestLog(dir, { segmentBytes: 3_000 });
  await appendThings(log, 0, count);
  await until(() => filesOf(dir, '.seg').length === 1);
  return { dir, log };
}

describe('checking a log', () => {
  it('counts the events of a sound log, beside its writer and without one', async () => {
    const { dir, log } = await logOf(50);
    await log.append([
      {
        stream: streamName('gateway', 'g'),
        events: [gatewayStopped.create({ reason: 'x', cutExchanges: 0 }, { actor: 'system' })],
        expectedRevision: 'any',
      },
    ]);
    const progress: number[] = [];
    const whole = { batches: 51, events: 51, streams: 4, unfinishedBytes: 0, problem: undefined };
    const check = await checkLog(dir, { onProgress: ({ events }) => progress.push(events) });
    expect(check).toMatchObject({ ...whole, segments: log.status().segments });
    expect(progress.at(-1)).toBe(51);
    await log.close();
    expect(await checkLog(dir)).toMatchObject(whole);
  });

  it('finds a changed byte in a compressed segment, and in one that is not', async () => {
    const { dir, log } = await logOf(50);
    await log.close();
    for (const file of [filesOf(dir, '.zst')[1] ?? '', fileOf(dir, '.seg')]) {
      const bytes = readFileSync(file);
      const changed = Buffer.from(bytes);
      changed[100] = (changed[100] ?? 0) ^ 0x40;
      writeFileSync(file, changed);
      const { problem, events } = await checkLog(dir);
      expect(problem?.segment).toBe(file.slice(-20, -4));
      expect(events).toBeLessThan(50);
      writeFileSync(file, bytes);
    }
  });

  it('finds a manifest that differs from its segment', async () => {
    const { dir, log } = await logOf(50);
    await log.close();
    const [manifest = ''] = filesOf(dir, '.json');
    const said = readFileSync(manifest, 'utf8');
    writeFileSync(
      manifest,
      said.replace(/(?<="sha256":")./, (digit) => (digit === '0' ? '1' : '0')),
    );
    expect((await checkLog(dir)).problem?.reason).toMatch(/hash/);
  });

  it('finds an event that does not match the catalogue', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir);
    const good = gatewayStarted.create(
      { version: '1', node: '24', durability: 'standard', pid: 1 },
      { actor: 'system' },
    );
    const bad = { ...good, data: { ...good.data, pid: 'one' } };
    await log.append([{ stream: streamName('gateway', 'g'), events: [good, bad], expectedRevision: 'any' }]);
    const { problem, events } = await checkLog(dir);
    expect(problem).toMatchObject({ position: 2, reason: expect.stringContaining('data.pid') });
    expect(events).toBe(1);
  });

  it('distinguishes an unfinished write from a lost one', async () => {
    const { dir, log } = await logOf(3);
    await log.close();
    const segment = fileOf(dir, '.seg');
    const size = statSync(segment).size;
    writeFileSync(segment, Buffer.alloc(99, 1), { flag: 'a' });
    expect(await checkLog(dir)).toMatchObject({ events: 3, unfinishedBytes: 99, problem: undefined });
    truncateSync(segment, size - 1);
    const { problem } = await checkLog(dir);
    expect(problem).toMatchObject({ reason: expect.stringContaining('position 3 had been on disk') });
  });

  it('finds that a segment is missing', async () => {
    const { dir, log } = await logOf(50);
    await log.close();
    for (const ending of ['.zst', '.json']) rmSync(filesOf(dir, ending)[1] ?? '');
    expect((await checkLog(dir)).problem?.reason).toMatch(/missing|ends too early/);
  });

  it('reports that there is no log', async () => {
    await expect(checkLog(temporaryDirectory())).rejects.toThrow(/no event log/);
    await expect(checkLog('/nowhere/at/all')).rejects.toThrow();
  });
});

describe('the figures of a log', () => {
  it('are its size and its counts', async () => {
    const { dir, log } = await logOf(50);
    await log.append([{ stream: streamName('key', 'k'), events: [thing(50)], expectedRevision: 'any' }]);
    const stat = await statLog(dir);
    expect(stat).toMatchObject({ events: 51, id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    expect(stat.streams['key']).toBe(1);
    // Three streams in turns, in many segments.
    expect(stat.segments.length).toBeGreaterThan(2);
    expect(stat.streams).toEqual({ thing: 3, key: 1 });
    expect(stat.segments.map(({ sealed }) => sealed)).toEqual([...stat.segments.slice(1).map(() => true), false]);
    expect(stat.segments[1]?.first).toBe((stat.segments[0]?.last ?? 0) + 1);
    expect(stat.storedBytes).toBeLessThan(stat.rawBytes);
    expect(stat.lastAt).toBeGreaterThan(stat.firstAt ?? Number.POSITIVE_INFINITY);
  });

  it('count each stream once, also with manifests of an earlier version', async () => {
    const { dir, log } = await logOf(50);
    await log.close();
    const counted = await statLog(dir);
    for (const file of filesOf(dir, '.json').filter((name) => /\d{16}\.json$/.test(name))) {
      const manifest = JSON.parse(readFileSync(file, 'utf8'));
      for (const category of Object.values<{ begun?: number }>(manifest.categories)) delete category.begun;
      delete manifest.crc32;
      writeFileSync(file, JSON.stringify(manifest));
    }
    expect(await statLog(dir)).toEqual(counted);
    expect(counted.streams).toEqual({ thing: 3 });
  });

  it('are all zero for an empty log', async () => {
    const dir = temporaryDirectory();
    await openTestLog(dir);
    expect(await statLog(dir)).toMatchObject({ events: 0, rawBytes: 0, streams: {}, firstAt: undefined });
  });
});
