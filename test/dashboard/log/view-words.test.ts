import { describe, expect, it } from 'vitest';
import { lagText, urgentFirst, type ViewState } from '../../../dashboard/src/pages/log/view-words.ts';

const view = (values: Partial<ViewState>): ViewState => ({
  ...{ state: 'live', lag_events: 0, lag_seconds: 0 },
  ...values,
});

describe('the lag of a read model', () => {
  it('ignores events that are on their way to a live one', () => {
    expect(lagText(view({ lag_events: 3, lag_seconds: 0.2 }))).toBe('no lag');
  });

  it('has events and time of one that is behind', () => {
    expect(lagText(view({ state: 'stopped', lag_events: 1, lag_seconds: 65 }))).toMatch(/^1 event behind, for 1 min/);
    expect(lagText(view({ state: 'live', lag_events: 1200, lag_seconds: 2 }))).toMatch(/^1,200 events behind, for 2 s/);
  });

  it('is not known before the first report', () => {
    expect(lagText(view({ state: 'unknown', lag_events: null, lag_seconds: null }))).toBe('lag not known');
  });
});

it('shows stopped read models first, and keeps the order of the others', () => {
  const named = (name: string, state: ViewState['state'] = 'live') => ({ ...view({ state }), name });
  const list = [named('a'), named('b', 'catching_up'), named('c', 'stopped'), named('d')];
  expect(urgentFirst(list).map(({ name }) => name)).toEqual(['c', 'b', 'a', 'd']);
});
