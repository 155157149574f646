import { beforeEach, describe, expect, it } from 'vitest';
import { MAX_MODELS, MAX_PAUSE_MS, PausedCredentials } from '../../src/providers/openai-compatible.ts';

let now: number;
const create = (count: number) => new PausedCredentials(count, () => now);
beforeEach(() => {
  now = 1000;
});

describe('a paused credential', () => {
  it('is paused for its model alone, and for the given time', () => {
    const paused = create(1);
    paused.pause(0, 'a', 2000);
    expect([paused.isPaused(0, 'a'), paused.isPaused(0, 'b')]).toEqual([true, false]);
    expect([paused.waitMs('a'), paused.waitMs('b')]).toEqual([2000, 0]);
    now += 1500;
    expect(paused.waitMs('a')).toBe(500);
    now += 500;
    expect([paused.waitMs('a'), paused.isPaused(0, 'a')]).toEqual([0, false]);
  });

  it('is paused for five minutes at most', () => {
    const paused = create(1);
    paused.pause(0, 'a', 3_600_000);
    expect(paused.waitMs('a')).toBe(MAX_PAUSE_MS);
    expect(MAX_PAUSE_MS).toBe(300_000);
  });

  it('leaves the other credentials in use', () => {
    const paused = create(2);
    paused.pause(0, 'a', 2000);
    expect(paused.waitMs('a')).toBe(0);
    paused.pause(1, 'a', 500);
    expect(paused.waitMs('a')).toBe(500);
  });

  it('does not result from a time of zero or less, or without a model', () => {
    const paused = create(1);
    for (const ms of [0, -1, Number.NaN]) paused.pause(0, 'a', ms);
    paused.pause(0, '', 1000);
    paused.pause(0, 'm'.repeat(10_000), 1000);
    expect([paused.waitMs('a'), paused.waitMs(''), paused.waitMs('m'.repeat(10_000))]).toEqual([0, 0, 0]);
  });

  it('is dropped when too many models are paused: first those whose pause is over, then the oldest', () => {
    const paused = create(1);
    paused.pause(0, 'first', 60_000);
    paused.pause(0, 'short', 1);
    for (let n = 2; n < MAX_MODELS; n++) paused.pause(0, `model-${n}`, 60_000);
    now += 10;
    paused.pause(0, 'one more', 60_000);
    expect(paused.waitMs('first')).toBeGreaterThan(0);
    paused.pause(0, 'and another', 60_000);
    expect([paused.waitMs('first'), paused.waitMs('model-2') > 0]).toEqual([0, true]);
    expect(paused.waitMs('and another')).toBe(60_000);
  });
});
