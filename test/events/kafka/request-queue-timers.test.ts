import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createKafkaEngine } from '../../../src/events/kafka/kafka-engine.ts';
import { kafkaOrSkip } from '../../support/kafka-for-tests.ts';
import { appends, readTo } from '../eventstore/appends.ts';

const shared = await kafkaOrSkip();

describe.skipIf(shared === undefined)('a log on Kafka', () => {
  it('sets no timers with negative times', async () => {
    const warnings: string[] = [];
    const note = ({ name }: Error) => warnings.push(name);
    process.on('warning', note);
    const engine = createKafkaEngine({ url: `kafka://${shared?.join(',')}/log-${randomUUID()}` });
    await engine.open();
    await engine.append(appends(1, 3));
    await readTo(engine, 3);
    await engine.close();
    process.off('warning', note);
    expect(warnings).not.toContain('TimeoutNegativeWarning');
  });
});
