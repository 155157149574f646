import { describe, expect, it } from 'vitest';
import { otherRates, rateText, sourceText } from '../../../dashboard/src/pages/models/model-prices.ts';

describe('prices in words', () => {
  it.each([
    [undefined, '–'],
    [0, '$0'],
    [2.5, '$2.5'],
    [0.000125, '$0.000125'],
    [1234.5, '$1234.5'],
  ])('%s dollars are %s', (dollars, text) => {
    expect(rateText(dollars)).toBe(text);
  });

  it.each([
    ['snapshot:2026-10-01', 'list price 2026-10-01'],
    ['config', 'configuration'],
    ['override:a/small+override:a/', 'set for a/small, then set for a/'],
  ])('the source %s is the %s', (source, text) => {
    expect(sourceText(source)).toBe(text);
  });

  it('names the rates beside input and output', () => {
    expect(otherRates({ input_per_mtok: 1, per_request: 0.01, new_rate: 2 })).toBe('Each request $0.01, new_rate $2');
  });
});
