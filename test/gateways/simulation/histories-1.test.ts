import { describe, expect, it } from 'vitest';
import { HISTORIES, PARTS, playPart } from './many-histories.ts';

describe('gateways on one log, in random histories', { timeout: 600_000 }, () => {
  it('keep what they guarantee, part 1 of 2', async () => {
    const { histories, seen } = await playPart(1);
    expect({ histories, parts: PARTS, all: HISTORIES }).toEqual({ histories: 50_000, parts: 2, all: 100_000 });
    // Each kind of thing has happened often.
    for (const [what, times] of Object.entries(seen)) expect(times, what).toBeGreaterThan(500);
  });
});
