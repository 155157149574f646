/** Every attempt, through both interfaces, on the real engine. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { someOf } from '../../support/seed.ts';
import { hasChdb } from '../embedded.ts';
import { type AttackTarget, startAttackTarget } from './attack-target.ts';
import type { Attempt } from './attempts/attempt.ts';
import { changes } from './attempts/changes.ts';
import { dictionaries } from './attempts/dictionaries.ts';
import { exhaustion } from './attempts/exhaustion.ts';
import { files } from './attempts/files.ts';
import { network } from './attempts/network.ts';
import { ownTables } from './attempts/own-tables.ts';
import { processes } from './attempts/processes.ts';
import { settings } from './attempts/settings.ts';
import { forbiddenEffectsOf } from './forbidden-effects.ts';

const families: Readonly<Record<string, readonly Attempt[]>> = {
  files,
  network,
  processes,
  settings,
  dictionaries,
  'own tables': ownTables,
  changes,
  exhaustion,
};

let attackTarget: AttackTarget;

describe.skipIf(!hasChdb)('readers', () => {
  beforeAll(async () => {
    attackTarget = await startAttackTarget();
  }, 60_000);
  afterAll(() => attackTarget?.close());

  test.each(Object.entries(families))('cannot: %s', { timeout: 180_000 }, async (_, attempts) => {
    const before = await attackTarget.state();
    const harm: string[] = [];
    for (const attempt of someOf(attempts, undefined, Math.ceil(attempts.length / 4)))
      harm.push(...(await forbiddenEffectsOf(attempt, attackTarget)));
    expect(harm).toEqual([]);
    expect(attackTarget.listener.contacts()).toBe(0);
    expect(await attackTarget.state()).toEqual(before);
  });

  test('are attacked in more than 200 ways', () => {
    const ways = new Set(Object.values(families).flatMap((attempts) => attempts.map((each) => JSON.stringify(each))));
    expect(ways.size).toBeGreaterThan(200);
  });
});
