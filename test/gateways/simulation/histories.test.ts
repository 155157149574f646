import { describe, expect, it } from 'vitest';
import { HISTORIES, playHistories } from './many-histories.ts';

describe('gateways on one log, in random histories', { timeout: 600_000 }, () => {
  it('keep what they guarantee', async () => {
    const { histories, seen } = await playHistories();
    expect(histories).toBe(HISTORIES);
    // Each kind of thing has happened often.
    for (const [what, times] of Object.entries(seen)) expect(times, what).toBeGreaterThan(HISTORIES / 200);
  });
});
