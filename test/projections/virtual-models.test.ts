import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { VirtualModelDirectory } from '../../src/commands/virtual-models/directory.ts';
import { virtualModelRemoved, virtualModelSaved } from '../../src/events/catalogue/workflow.ts';
import { formatPosition, type NewEvent, type RecordedEvent, streamName } from '../../src/events/event.ts';
import type { SavedObjects } from '../../src/projections/administered.ts';
import { fold } from '../../src/projections/projection.ts';
import { virtualModelsView } from '../../src/projections/workflows.ts';
import { policy, redirect } from '../virtual-models/virtual-model-fixtures.ts';

const context = { actor: 'master' as const };
const saved = (source: string, model = 'x') =>
  virtualModelSaved.create({ ...redirect(source, []), targets: [{ model }] }, context);
const removed = (source: string) => virtualModelRemoved.create({ source }, context);

/** As the log would have recorded them. */
function recorded(events: readonly (NewEvent & { readonly data: { readonly source?: string } })[]): RecordedEvent[] {
  const revisions = new Map<string, bigint>();
  return events.map((event, place) => {
    const { source = '' } = event.data;
    const revision = (revisions.get(source) ?? -1n) + 1n;
    revisions.set(source, revision);
    return {
      ...event,
      id: `event-${place}`,
      stream: streamName('virtual-model', source),
      revision,
      position: formatPosition(place + 1),
      at: 1_000_000 + place + 0.5,
    };
  });
}

const asTold = ({ byKey }: SavedObjects<unknown>) => Object.fromEntries([...byKey].sort());

describe('the virtual models', () => {
  test('are those that were saved last and not removed, with their times', () => {
    const state = fold(
      virtualModelsView,
      recorded([saved('a', 'x'), saved('b'), saved('a', 'y'), removed('b'), saved('c'), removed('c'), saved('c', 'z')]),
    );
    expect(asTold(state)).toMatchObject({
      a: { value: { targets: [{ model: 'y' }] }, createdAt: 1_000_000, updatedAt: 1_000_002, revision: 1 },
      c: { value: { targets: [{ model: 'z' }] }, createdAt: 1_000_006, updatedAt: 1_000_006, revision: 2 },
    });
    expect([...state.byKey.keys()].sort()).toEqual(['a', 'c']);
  });

  const changes = fc.array(
    fc.oneof(
      fc
        .record({ source: fc.constantFrom('a', 'b', 'c/d'), model: fc.constantFrom('x', 'y') })
        .map(({ source, model }) => saved(source, model)),
      fc.constantFrom('a', 'b', 'c/d').map(removed),
    ),
    { maxLength: 30 },
  );

  test('are the same from a snapshot, saved anywhere, as from the beginning', () => {
    fc.assert(
      fc.property(changes, fc.nat(30), (events, cut) => {
        const history = recorded(events);
        const whole = fold(virtualModelsView, history);
        const half = fold(virtualModelsView, history.slice(0, cut));
        const snapshot: unknown = structuredClone(virtualModelsView.save?.(half));
        const loaded = virtualModelsView.load?.(snapshot);
        expect(asTold(fold(virtualModelsView, history.slice(cut), loaded))).toEqual(asTold(whole));
      }),
    );
  });

  test('change their version with every change, so that caches can compare it', () => {
    const state = virtualModelsView.initial();
    const seen = new Set([state.version]);
    for (const event of recorded([saved('a'), saved('a', 'y'), removed('a'), saved('a')])) {
      virtualModelsView.apply(state, event);
      seen.add(state.version);
    }
    expect(seen.size).toBe(5);
  });
});

describe('the virtual models in force', () => {
  const declared = new Map([['fast', redirect('fast', ['groq/declared'])]]);

  test('are those of the configuration before those that were made', () => {
    const state = fold(virtualModelsView, recorded([saved('fast'), saved('slow')]));
    const directory = new VirtualModelDirectory({ stored: { state }, declared, enabledByDefault: true });
    expect([...directory.all.keys()].sort()).toEqual(['fast', 'slow']);
    expect(directory.redirects.get('fast')?.targets).toEqual([{ provider: 'groq', model: 'declared' }]);
    expect(directory.inForce.isDeclared('fast')).toBe(true);
    expect(directory.inForce.savedAs('fast')).toBeUndefined();
    expect(directory.inForce.savedAs('slow')).toMatchObject({ revision: 0 });
  });

  test('follow each change, and are the same object without one', () => {
    const state = virtualModelsView.initial();
    const directory = new VirtualModelDirectory({ stored: { state }, declared: new Map(), enabledByDefault: true });
    expect(directory.policies.any).toBe(false);
    const before = directory.redirects;
    expect(directory.redirects).toBe(before);
    const off = virtualModelSaved.create({ ...policy('groq/', { enabled: false }), targets: [] }, context);
    for (const event of recorded([off])) virtualModelsView.apply(state, event);
    expect(directory.policies.any).toBe(true);
    expect(directory.policies.allows(undefined, 'groq', 'a')).toBe(false);
    expect(directory.policyOf('groq', 'a')).toMatchObject({ source: 'groq/', enabled: false });
    expect(directory.policyOf('openai', 'a')).toBeUndefined();
  });

  test('have no targets when they are switched off', () => {
    const off = virtualModelSaved.create(
      { ...redirect('off', []), targets: [{ model: 'x' }], enabled: false },
      context,
    );
    const state = fold(virtualModelsView, recorded([off]));
    const directory = new VirtualModelDirectory({ stored: { state }, declared: new Map(), enabledByDefault: true });
    expect(directory.redirects.size).toBe(0);
    expect(directory.all.size).toBe(1);
  });
});
