import { describe, expect, it } from 'vitest';
import { placeInTakeoverOrder } from '../../src/commands/gateways/lease-keeper.ts';
import { formatPosition } from '../../src/events/event.ts';

const alive = Array.from({ length: 10 }, (_, index) => `gateway ${index}`);
const grantedAt = (position: number) => ({ grantedAt: formatPosition(position) });

describe('the line of heirs of a lease', () => {
  it('has one gateway at each place but the last, and all others there', () => {
    const places = alive.map((own) => placeInTakeoverOrder(grantedAt(1234), own, alive));
    expect(places.toSorted()).toEqual([0, 1, 2, 3, 4, 4, 4, 4, 4, 4]);
    expect(places[4]).toBe(0);
  });

  it('begins with another gateway for each lease', () => {
    const first = [100, 101, 102].map((position) =>
      alive.findIndex((own) => placeInTakeoverOrder(grantedAt(position), own, alive) === 0),
    );
    expect(first).toEqual([0, 1, 2]);
  });

  it('has the only gateway at its first place, and one that is not known to be alive at its last', () => {
    expect(placeInTakeoverOrder(grantedAt(7), 'alone', ['alone'])).toBe(0);
    expect(placeInTakeoverOrder(grantedAt(7), 'unknown', alive)).toBe(4);
  });
});
