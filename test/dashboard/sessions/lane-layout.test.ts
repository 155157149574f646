import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChainEdge, laneLayout } from '../../../dashboard/src/pages/sessions/lane-layout.ts';

const edge = (from: string, to: string, kind = 'previous_response'): ChainEdge => ({ from, to, kind });
const lanesOf = (ids: string, edges: readonly ChainEdge[]) =>
  laneLayout([...ids], edges).places.map(({ lane }) => lane);

describe('the layout of a chain', () => {
  it('keeps a sequence in one lane', () => {
    expect(lanesOf('abc', [edge('a', 'b'), edge('b', 'c')])).toEqual([0, 0, 0]);
  });

  it('gives a second continuation of the same request a lane of its own', () => {
    expect(lanesOf('abcd', [edge('a', 'b'), edge('a', 'c'), edge('b', 'd')])).toEqual([0, 0, 1, 0]);
  });

  it('uses a lane again after its last request', () => {
    expect(lanesOf('abcd', [edge('a', 'd'), edge('b', 'c')])).toEqual([0, 1, 1, 0]);
    expect(lanesOf('abcd', [edge('a', 'b'), edge('c', 'd')])).toEqual([0, 0, 0, 0]);
  });

  it('prefers the continued response to the session', () => {
    const edges = [edge('b', 'c', 'session'), edge('a', 'c')];
    const { places, edges: placed } = laneLayout(['a', 'b', 'c'], edges);
    expect(places.map(({ lane }) => lane)).toEqual([0, 1, 0]);
    expect(placed).toHaveLength(2);
  });

  it('does not place a request in the lane of one whose answer it only got again', () => {
    expect(lanesOf('ab', [edge('a', 'b', 'replayed_from')])).toEqual([0, 0]);
    expect(lanesOf('abc', [edge('a', 'b', 'replayed_from'), edge('a', 'c')])).toEqual([0, 1, 0]);
  });

  it('leaves out edges of unknown requests and edges to earlier ones', () => {
    expect(laneLayout(['a', 'b'], [edge('x', 'b'), edge('b', 'a'), edge('a', 'a')]).edges).toEqual([]);
  });

  it('never draws a line in a lane through another request', () => {
    const chains = fc.integer({ min: 1, max: 14 }).chain((count) =>
      fc.record({
        ids: fc.constant(Array.from({ length: count }, (_, at) => String(at))),
        edges: fc.array(
          fc.tuple(fc.nat(count - 1), fc.nat(count - 1)).map(([one, other]) => edge(String(one), String(other))),
          { maxLength: 20 },
        ),
      }),
    );
    fc.assert(
      fc.property(chains, ({ ids, edges }) => {
        // At most one continued response for each request, as in the log.
        const parents = new Map(edges.filter(({ from, to }) => Number(from) < Number(to)).map((one) => [one.to, one]));
        const { places, edges: placed, lanes } = laneLayout(ids, [...parents.values()]);
        fc.pre(lanes < 12);
        for (const { from, to, lane } of placed) {
          const between = places.filter((place) => place.row > from.row && place.row < to.row && place.lane === lane);
          expect(between).toEqual([]);
        }
      }),
    );
  });
});
