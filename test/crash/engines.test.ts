import { afterAll, describe, expect, it } from 'vitest';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import { killAll, temporaryFolder } from '../e2e/gateway-process.ts';
import { seed, someOf } from '../support/seed.ts';
import { type EngineName, startCrashEngine } from './engines.ts';
import { runCrashRounds } from './rounds.ts';

const jars = kafkaJars();
if ('missing' in jars) console.log(`crash rounds on Kafka are skipped: ${jars.missing}`);
afterAll(killAll);

/** Hundreds of rounds: `npm run test:crash -- --engine kafka`. */
const rounds = 2;

async function loses(name: EngineName): Promise<void> {
  const folder = temporaryFolder();
  const engine = await startCrashEngine(name);
  try {
    const sum = await runCrashRounds({
      dataDir: folder.path,
      rounds,
      seed,
      secondsPerRound: 0.8,
      leastAnswers: 6,
      clients: 8,
      engine,
    });
    expect(sum.violations.slice(0, 20)).toEqual([]);
    expect(sum.rounds).toBe(rounds);
    // There was something to lose.
    expect(sum.wholeAnswers).toBeGreaterThan(10);
  } finally {
    await engine.dispose();
    folder.remove();
  }
}

const engines = 'missing' in jars ? (['eventstore'] as const) : (['kafka', 'eventstore'] as const);

describe('a gateway and the engine of its log that are killed under load', () => {
  it.each(someOf<EngineName>(engines))(`lose nothing acknowledged on %s (seed ${seed})`, loses, 150_000);
});
