/** The simulation finds faults: each test breaks one rule of the code and expects its violation. */
import { describe, expect, it } from 'vitest';
import type { StreamWrite } from '../../../src/events/log.ts';
import { violationBy } from './many-histories.ts';
import { rejoining } from './world.ts';

const isCondition = ({ events }: StreamWrite) => events.length === 0;
const ends = ({ stream, events }: StreamWrite) => stream.startsWith('lease-') && events[0]?.type === 'lease.ended';

describe('the simulation finds', { timeout: 300_000 }, () => {
  it('appends without the condition of the lease', async () => {
    const writes = (all: readonly StreamWrite[]) =>
      all.filter((write) => !(isCondition(write) && write.stream.startsWith('lease-')));
    expect(await violationBy({ writes })).toMatch(/whose lease has ended was accepted|does not own it/);
  });

  it('the end of a lease that was renewed meanwhile', async () => {
    const writes = (all: readonly StreamWrite[]) =>
      all.some(ends) ? all.filter((write) => !(isCondition(write) && write.stream.startsWith('gateway-'))) : all;
    expect(await violationBy({ writes })).toBe('a gateway believes in a lease that has ended');
  });

  it('clocks that differ by more than others wait', async () => {
    expect(await violationBy({ clocks: 1.5 })).toBe('a gateway believes in a lease that has ended');
  });

  it('a suspended machine whose time of day is not looked at', async () => {
    expect(await violationBy({ wallClock: () => 0 })).toBe('a gateway believes in a lease that has ended');
  });

  it('changes that are stated before they are in force', async () => {
    expect(await violationBy({ applied: async () => {} })).toBe('a gateway acts on a configuration that was changed');
  });

  it('changes that are confirmed without the other gateways', async () => {
    expect(await violationBy({ appliedEverywhere: async () => {} })).toBe(
      'a gateway acts on a configuration that was changed',
    );
  });

  it('reads of what other gateways have recorded without an append before them', async () => {
    expect(await violationBy({ hasOthers: () => false })).toBe(
      'what a client has stored was not found through another gateway',
    );
  });

  it('a gateway that does not wait until a single one knows of it', async () => {
    expect(await violationBy({ knownToOthers: () => undefined }, rejoining)).toBe(
      'what a client has stored was not found through another gateway',
    );
  });

  it('reservations that end with the lease of their gateway', async () => {
    expect(await violationBy({ budget: 'ends of leases release' })).toBe('reserved and spent exceed the budget');
  });

  it('reservations that are not compared with the budget', async () => {
    expect(await violationBy({ budget: 'every amount fits' })).toBe('reserved and spent exceed the budget');
  });

  it('exchanges that no gateway takes over', async () => {
    expect(await violationBy({ inherits: false })).toMatch(/^after a calm time: [1-9]\d* open exchanges/);
  });
});
