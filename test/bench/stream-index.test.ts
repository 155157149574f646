import { describe, expect, it } from 'vitest';
import { APPENDS, benchStreamIndex } from '../../bench/sections/stream-index.ts';
import { temporaryDirectory } from '../events/log-files.ts';

describe('the benchmark of the stream index', () => {
  it('builds logs whose index holds so many streams, and measures appends of each kind beside it', async () => {
    const options = { streams: [0, 500], rounds: 1, seconds: 0.05, writers: 2, dir: temporaryDirectory() };
    const { cells, indexBytes } = await benchStreamIndex(options, () => {});
    expect(cells.map(({ streams, kind }) => [streams, kind])).toEqual(
      options.streams.flatMap((streams) => APPENDS.map((kind) => [streams, kind])),
    );
    for (const { p50Ms, p99Ms, perSecond } of cells) {
      expect(p50Ms).toBeGreaterThan(0);
      expect(p99Ms).toBeGreaterThanOrEqual(p50Ms);
      expect(perSecond).toBeGreaterThan(0);
    }
    expect(indexBytes.get(500)).toBeGreaterThan(indexBytes.get(0) ?? Number.POSITIVE_INFINITY);
  });
});
