/**
 * Runs the tests of other files with the response cache on and a plugin that sees every request, each test twice: first with an empty cache, and then with
 * the answers that the first run got, so that the second run is answered from the cache where it may be.
 */
import { afterAll, beforeEach, describe, expect } from 'vitest';
import { hitsSoFar, pluginCallsSoFar, purgeCaches, turnCacheOn } from './cache-of-tests.ts';

/**
 * @param files imports the files; they must not have been imported before
 * @param toolCalls whether answers that call tools are kept too, by a workflow
 */
export function twiceThroughCache(files: () => Promise<unknown>, { toolCalls = false } = {}): void {
  turnCacheOn(toolCalls);
  describe('with the response cache', { repeats: 1 }, async () => {
    beforeEach(async ({ task }) => {
      if ((task.result?.repeatCount ?? 0) === 0) await purgeCaches();
    });
    await files();
  });
  afterAll(() => {
    expect(hitsSoFar(), 'answers from the response cache').toBeGreaterThan(0);
    expect(pluginCallsSoFar(), 'calls of the plugin').toBeGreaterThan(0);
  });
}
