import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openLog } from '../../src/events/open-log.ts';
import { appendThings, filesOf, readThings, temporaryDirectory } from './log-files.ts';

describe('opening a log by its URL', () => {
  it.each([
    ['an absolute path', (dir: string) => `file:${dir}`],
    ['a path relative to the working directory', (dir: string) => `file:./${path.relative(process.cwd(), dir)}`],
    ['a file URL', (dir: string) => pathToFileURL(dir).href],
  ])('takes %s', async (_, urlOf) => {
    const dir = path.join(temporaryDirectory(), 'my log 100%');
    const log = await openLog(urlOf(dir));
    onTestFinished(() => log.close());
    await appendThings(log, 0, 2);
    expect(filesOf(dir, '.seg')).toHaveLength(1);
    const reader = await openLog(urlOf(dir), { readOnly: true });
    onTestFinished(() => reader.close());
    expect(await readThings(reader)).toEqual([0, 1]);
    expect(reader.status()).toMatchObject({ state: 'ok', head: await log.head() });
  });

  it('keeps a log in memory for tests', async () => {
    const log = await openLog('memory:');
    await appendThings(log, 0, 2);
    expect(await readThings(log)).toEqual([0, 1]);
    expect(log.status()).toMatchObject({ state: 'ok', head: '0000000000000002' });
    await log.close();
  });

  it('reports its level of durability', async () => {
    const durabilityOf = async (url: string, durability: 'standard' | 'strict' | 'relaxed') => {
      const log = await openLog(url, { durability });
      await log.close();
      return log.capabilities.durability;
    };
    expect(await durabilityOf(`file:${temporaryDirectory()}`, 'standard')).toBe('disk');
    expect(await durabilityOf(`file:${temporaryDirectory()}`, 'strict')).toBe('disk');
    expect(await durabilityOf(`file:${temporaryDirectory()}`, 'relaxed')).toBe('os');
    expect(await durabilityOf('memory:', 'standard')).toBe('memory');
  });

  it.each([
    ['esdb://localhost:2113', /is opened with a replica/],
    ['esdb+discover://localhost:2113/gateway', /is opened with a replica/],
    ['kurrentdb+discover://localhost:2113/gateway', /is opened with a replica/],
    ['kafka://localhost:9092/gateway', /is opened with a replica/],
    ['file:', /a directory is missing/],
    ['./data/log', /expected file:/],
    ['redis://localhost', /expected file:/],
  ])('refuses %s with a reason', async (url, message) => {
    await expect(openLog(url)).rejects.toThrow(message);
  });
});
