import { describe, expect, it } from 'vitest';
import { topicProblem } from '../../../src/events/kafka/kafka-clients.ts';

const right = {
  'cleanup.policy': 'delete',
  'retention.ms': '-1',
  'retention.bytes': '-1',
  'unclean.leader.election.enable': 'false',
  'min.insync.replicas': '2',
  'max.message.bytes': '1048588',
};

const problem = (changed: Readonly<Record<string, string>>, replicas: number) =>
  topicProblem(new Map(Object.entries({ ...right, ...changed })), replicas);

describe('the settings of a topic', () => {
  it('are accepted as this gateway creates them, with every replication factor', () => {
    for (const [replicas, insync] of [
      [1, '1'],
      [2, '1'],
      [3, '2'],
      [5, '4'],
    ] as const) {
      expect(problem({ 'min.insync.replicas': insync }, replicas)).toBeUndefined();
    }
  });

  it.each([
    ['cleanup.policy', 'compact', 'delete'],
    ['retention.ms', '604800000', '-1'],
    ['retention.bytes', '1000', '-1'],
    ['unclean.leader.election.enable', 'true', 'false'],
    ['max.message.bytes', '1000', '1048588'],
  ])('are refused with %s=%s', (name, value, needed) => {
    expect(problem({ [name]: value }, 3)).toMatchObject({ name, value: needed });
  });

  it.each([
    [1, '2', '1'],
    [2, '3', '1'],
    [3, '1', '2'],
    [3, '4', '2'],
    [5, '1', '4'],
  ])('are refused with replication factor %i and min.insync.replicas=%s', (replicas, insync, value) => {
    const found = problem({ 'min.insync.replicas': insync }, replicas);
    expect(found).toMatchObject({ name: 'min.insync.replicas', value });
    expect(problem({ 'min.insync.replicas': value }, replicas)).toBeUndefined();
  });
});
