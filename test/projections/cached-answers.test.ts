/** The index of the response cache: the order of the log decides between an answer and a purge at the same time. */
import { describe, expect, it } from 'vitest';
import { answerCached, cachePurged } from '../../src/events/catalogue/cache.ts';
import { formatPosition, type NewEvent, type RecordedEvent, streamName } from '../../src/events/event.ts';
import { cachedAnswersView } from '../../src/projections/cached-answers.ts';

const context = { actor: 'master' as const };

/** @param purges the purges that the request of the answer knew */
function stored(digest: string, purges?: number): NewEvent {
  const answer = { dialect: 'chat', stream: false, provider: 'openai', model: 'small', bytes: 10 };
  return answerCached.create({ ...answer, digest, expiresAt: 10_000, purges }, context);
}

const purged = (selection = {}) => cachePurged.create(selection, context);

const view = cachedAnswersView(10);

function folded(events: readonly NewEvent[]) {
  const recorded = events.map((event, index): RecordedEvent => {
    const place = { stream: streamName('exchange', String(index)), revision: 0n, position: formatPosition(index + 1) };
    return { ...event, ...place, id: String(index), schema: 1, at: 1000 + index };
  });
  return recorded.reduce((before, event) => view.apply(before, event), view.initial());
}

/** The digests of the index after these events, in this order. */
const indexed = (...events: NewEvent[]): string[] => [...folded(events).entries.keys()];

describe('the index of cached answers', () => {
  it('is the same after it was saved and loaded, with the newest entries when fewer are allowed', () => {
    const state = folded([stored('a'), stored('b'), purged({ userPath: '/elsewhere' }), stored('c')]);
    const saved = structuredClone(view.save?.(state));
    expect(view.load?.(saved)).toEqual(state);
    expect([...(cachedAnswersView(2).load?.(saved).entries.keys() ?? [])]).toEqual(['b', 'c']);
  });

  it('excludes an answer that was recorded after a purge and was requested before it', () => {
    expect(indexed(purged(), stored('a', 1), purged(), stored('b', 1))).toEqual([]);
    expect(indexed(purged({ userPath: '/elsewhere' }), stored('a', 0))).toEqual([]);
  });

  it('includes an answer whose request followed the purges', () => {
    expect(
      indexed(stored('a', 0), purged(), stored('b', 1), purged({ userPath: '/elsewhere' }), stored('c', 2)),
    ).toEqual(['b', 'c']);
  });

  it('includes answers of gateways that did not record the purges', () => {
    expect(indexed(purged(), stored('a'))).toEqual(['a']);
  });
});
