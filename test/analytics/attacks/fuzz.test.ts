/**
 * Attempts in disguise, through both interfaces: `ATTACK_CASES` of them (300 by default), the same for the same
 * `CHANCERY_TEST_SEED`. None may show or change anything, whether it is refused, answered or no SQL at all.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { countOf, seed } from '../../support/seed.ts';
import { hasChdb } from '../embedded.ts';
import { type AttackTarget, startAttackTarget } from './attack-target.ts';
import { forbiddenEffectsOf } from './forbidden-effects.ts';
import { obfuscated, oneOf, randomFrom, rewritten } from './obfuscate.ts';

const cases = countOf(300, 5_000, 'ATTACK_CASES');

const attempts: readonly [string, ...string[]] = [
  "SELECT file('$FILE')",
  "SELECT arrayMap(file, ['$FILE'])",
  "SELECT * APPLY(file) FROM (SELECT '$FILE' AS x)",
  "WITH file AS f SELECT arrayMap(f, ['$FILE'])",
  "SELECT * FROM file('$FILE', 'LineAsString')",
  'SELECT * FROM default.`$FILE`',
  "SELECT * FROM url('http://$HOST/', 'TSV', 'a String')",
  "SELECT * FROM remote('$HOST', system.one)",
  "DESCRIBE TABLE url('http://$HOST/', 'TSV')",
  "SELECT * FROM executable('id', 'TSV', 'a String')",
  'SELECT * FROM system.models',
  "SELECT * FROM merge('system', '^models$')",
  'SELECT query FROM system.processes',
  "SELECT 1 INTO OUTFILE '$OUTSIDE/a'",
  "SELECT 1 AS a FORMAT Template SETTINGS format_template_row = '$FILE'",
  'SELECT 1 SETTINGS readonly = 0',
  "INSERT INTO chancery.items VALUES (99, 'x')",
  'DROP TABLE chancery.items',
  'ALTER TABLE chancery.items DELETE WHERE 1',
  "CREATE TABLE chancery.f (a String) ENGINE = File(LineAsString, '$FILE')",
  'SYSTEM STOP MERGES',
  'KILL QUERY WHERE 1',
  'SET readonly = 0',
];

const questions: readonly [string, ...string[]] = [
  'SELECT count() AS n, max(id) FROM chancery.items WHERE id >= 3',
  'WITH t AS (SELECT id, name FROM chancery.items) SELECT sum(id) FROM t GROUP BY id % 2 ORDER BY 1 DESC LIMIT 5',
  "SELECT name LIKE '%1%' AS hit, count() FROM chancery.items GROUP BY hit ORDER BY hit",
  'SELECT id, sum(id) OVER (ORDER BY id) FROM chancery.items ORDER BY id',
  'SELECT l.id FROM chancery.items AS l JOIN chancery.items AS r ON l.id = r.id ORDER BY l.id',
  "SELECT 'it''s /* no comment */ -- either' AS text",
  'DESCRIBE TABLE chancery.items',
];

const keywords = new Set(
  'SELECT FROM WHERE WITH AS GROUP BY ORDER DESC LIMIT LIKE OVER JOIN ON DESCRIBE TABLE'.split(' '),
);

let attackTarget: AttackTarget;

describe.skipIf(!hasChdb)('queries in disguise', () => {
  beforeAll(async () => {
    attackTarget = await startAttackTarget();
  }, 60_000);
  afterAll(() => attackTarget?.close());

  test(`${cases} attempts with seed ${seed} do no harm`, { timeout: 60_000 + cases * 1000 }, async () => {
    const random = randomFrom(seed);
    const before = await attackTarget.state();
    const harm: string[] = [];
    for (let index = 0; index < cases; index++) {
      const query = obfuscated(oneOf(random, attempts), random);
      harm.push(...(await forbiddenEffectsOf({ query, outcome: 'harmless' }, attackTarget)));
    }
    expect(harm).toEqual([]);
    expect(attackTarget.listener.contacts()).toBe(0);
    expect(await attackTarget.state()).toEqual(before);
  });

  test('the text is the same for the same seed', () => {
    const texts = () => {
      const random = randomFrom(seed);
      return Array.from({ length: 50 }, () => obfuscated(oneOf(random, attempts), random));
    };
    expect(texts()).toEqual(texts());
    expect(new Set(texts()).size).toBeGreaterThan(40);
  });

  test('questions that are only written in another way get the same answer', { timeout: 60_000 }, async () => {
    const random = randomFrom(seed);
    for (const query of questions) {
      const [first] = await attackTarget.attempt({ query });
      expect([query, first?.status]).toEqual([query, 200]);
      for (let again = 0; again < 6; again++) {
        const other = rewritten(query, random, keywords);
        for (const { status, text } of await attackTarget.attempt({ query: other })) {
          expect([other, status, text]).toEqual([other, 200, first?.text]);
        }
      }
    }
  });
});
