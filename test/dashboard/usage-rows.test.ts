import { describe, expect, it } from 'vitest';
import { previousRange } from '../../dashboard/src/pages/usage/previous-range.ts';
import {
  daysBetween,
  grouped,
  mondayOf,
  noUsage,
  ranked,
  sumOf,
  type Usage,
  usageOf,
} from '../../dashboard/src/pages/usage/usage-rows.ts';

const used = (changes: Partial<Usage>): Usage => ({ ...noUsage, requests: 1, ...changes });

describe('a row of usage', () => {
  it('has the requests and tokens of providers, without answers from the response cache', () => {
    const row = {
      ...{ requests: 10, input_tokens: 1000, output_tokens: 500, cached_input_tokens: 300 },
      ...{ local_cached_input_tokens: 200, local_cached_output_tokens: 100, cache_hits: 4 },
      ...{ total_cost: 1.5, saved_cost: 0.25, unpriced_requests: 2 },
    };
    expect(usageOf(row)).toEqual({
      ...{ requests: 6, cacheHits: 4, input: 800, output: 400, promptCached: 300, tokens: 1200 },
      ...{ cost: 1.5, saved: 0.25, unpriced: 2 },
    });
  });
});

describe('a sum of usage', () => {
  it('adds the known costs', () => {
    const sum = sumOf([used({ cost: 1, tokens: 10 }), used({ cost: null, tokens: 5, unpriced: 1 }), noUsage]);
    expect(sum).toMatchObject({ cost: 1, tokens: 15, unpriced: 1, requests: 2 });
  });

  it('is unknown, and not 0, when no cost of a request is known, also beside days without requests', () => {
    expect(sumOf([used({ cost: null }), noUsage]).cost).toBeNull();
    expect(sumOf([used({ cacheHits: 2, saved: null, cost: 3 }), noUsage]).saved).toBeNull();
    expect(sumOf([noUsage, noUsage])).toMatchObject({ cost: 0, saved: 0 });
    expect(sumOf([])).toMatchObject({ cost: 0, saved: 0 });
  });
});

describe('rows of usage', () => {
  it('with the same key become one', () => {
    const rows = [
      { key: 'a', usage: used({ cost: 1 }) },
      { key: 'b', usage: used({ cost: 2 }) },
      { key: 'a', usage: used({ cost: 4 }) },
    ];
    expect(grouped(rows).map(({ key, usage }) => [key, usage.cost])).toEqual([
      ['a', 5],
      ['b', 2],
    ]);
  });

  it('are ranked by the measure, unknown costs last', () => {
    const rows = [
      { key: 'free', usage: used({ cost: 0, tokens: 9 }) },
      { key: 'unknown', usage: used({ cost: null, tokens: 99 }) },
      { key: 'most', usage: used({ cost: 5, tokens: 1 }) },
    ];
    expect(ranked(rows, 'cost').map(({ key }) => key)).toEqual(['most', 'free', 'unknown']);
    expect(ranked(rows, 'tokens').map(({ key }) => key)).toEqual(['unknown', 'free', 'most']);
  });
});

describe('days', () => {
  it('are all between the first and the last', () => {
    expect(daysBetween('2026-02-27', '2026-03-02')).toEqual(['2026-02-27', '2026-02-28', '2026-03-01', '2026-03-02']);
    expect(daysBetween('2026-03-02', '2026-03-01')).toEqual([]);
  });

  it.each([
    ['2026-11-23', '2026-11-23'],
    ['2026-11-29', '2026-11-23'],
    ['2027-01-01', '2026-12-28'],
  ])('%s is in the week of %s', (day, monday) => {
    expect(mondayOf(day)).toBe(monday);
  });
});

describe('the time before', () => {
  const later = Date.parse('2027-01-01T00:00:00Z');

  it('is as many days, when the range begins with a day', () => {
    const week = { from: '2026-11-16T00:00:00.000Z', to: '2026-11-23T00:00:00.000Z' };
    expect(previousRange(week, later, 'UTC')).toEqual({ from: '2026-11-09T00:00:00.000Z', to: week.from });
  });

  it('has only as much as has passed of the range', () => {
    const week = { from: '2026-11-16T00:00:00.000Z', to: '2026-11-23T00:00:00.000Z' };
    const now = Date.parse('2026-11-20T10:07:00Z');
    expect(previousRange(week, now, 'UTC')).toEqual({
      from: '2026-11-09T00:00:00.000Z',
      to: '2026-11-13T10:15:00.000Z',
    });
  });

  it('is as long as a range between instants', () => {
    const hour = { from: '2026-11-16T10:20:00.000Z', to: '2026-11-16T11:20:00.000Z' };
    expect(previousRange(hour, later, 'UTC')).toEqual({ from: '2026-11-16T09:20:00.000Z', to: hour.from });
  });

  it('begins with a day of the zone where the clock was set back', () => {
    const week = { from: '2026-10-25T22:00:00.000Z', to: '2026-11-01T23:00:00.000Z' };
    const zone = 'Europe/Berlin';
    // The 25th of October 2026 has 25 hours.
    const berlin = { from: '2026-10-25T23:00:00.000Z', to: week.to };
    expect(previousRange(berlin, later, zone).from).toBe('2026-10-18T22:00:00.000Z');
  });
});
