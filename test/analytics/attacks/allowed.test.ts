/**
 * The usual queries of readers keep working, through both interfaces. The documented ones are in `questions.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasChdb } from '../embedded.ts';
import { allowedQueries } from './allowed-queries.ts';
import { type AttackTarget, startAttackTarget } from './attack-target.ts';

let attackTarget: AttackTarget;

describe.skipIf(!hasChdb)('a usual query of a reader', () => {
  beforeAll(async () => {
    attackTarget = await startAttackTarget();
  }, 60_000);
  afterAll(() => attackTarget?.close());

  test('is answered', { timeout: 120_000 }, async () => {
    const wrong: unknown[] = [];
    for (const { query, url, holds = '' } of allowedQueries) {
      for (const { by, status, text } of await attackTarget.attempt({ query, ...(url === undefined ? {} : { url }) })) {
        if (status !== 200 || !text.includes(holds)) wrong.push({ query, by, status, text: text.slice(0, 200) });
      }
    }
    expect(wrong).toEqual([]);
  });
});
