import { describe, expect, it } from 'vitest';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import { seed, someOf } from '../support/seed.ts';
import { runDriverRounds } from './driver-rounds.ts';
import { type EngineName, startCrashEngine } from './engines.ts';
import { createChance } from './random.ts';

const jars = kafkaJars();
if ('missing' in jars) console.log(`crash rounds on the driver for Kafka are skipped: ${jars.missing}`);

/** Hundreds of rounds: `npm run test:crash -- --engine kafka --driver`. */
const rounds = 2;

/** An error that nothing handles fails the run of the tests, as it would stop a gateway. */
async function keepsAll(name: EngineName): Promise<void> {
  const engine = await startCrashEngine(name);
  try {
    const sum = await runDriverRounds({
      engine,
      rounds,
      chance: createChance(seed),
      writers: 2,
      secondsPerRound: 0.5,
    });
    expect(sum.violations.slice(0, 20)).toEqual([]);
    // There was something to lose.
    expect(sum.acknowledged).toBeGreaterThan(20);
  } finally {
    await engine.dispose();
  }
}

describe('a driver whose engine is killed and started again', () => {
  const engines = 'missing' in jars ? (['eventstore'] as const) : (['kafka', 'eventstore'] as const);

  it.each(someOf<EngineName>(engines))(
    `keeps the order of appends, and all acknowledged ones, on %s (seed ${seed})`,
    keepsAll,
    120_000,
  );
});
