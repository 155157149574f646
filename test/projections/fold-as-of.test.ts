import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { providerCredentialRemoved } from '../../src/events/catalogue/provider.ts';
import { type Position, type RecordedEvent, START, streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { foldAsOf } from '../../src/projections/admin-history.ts';
import { type AdminJournal, adminJournal } from '../../src/projections/admin-journal.ts';
import { budgetsView } from '../../src/projections/budgets.ts';
import { keysView, taggingView, usersView } from '../../src/projections/keys.ts';
import { rateLimitsView } from '../../src/projections/limits.ts';
import { fold, type Projection } from '../../src/projections/projection.ts';
import { priceOverridesView, providerCredentialsView } from '../../src/projections/provider-memory.ts';
import { createProjectionRunner, type ProjectionRunner } from '../../src/projections/runner.ts';
import { guardrailsView, virtualModelsView, workflowsView } from '../../src/projections/workflows.ts';
import { admin, credentialSaved, history, keyMade, noise, policySet, type Written, write } from './admin-events.ts';
import { engines, openTestLog } from './log-engines.ts';

/** The events that a fold has seen, in order: two that have seen the same are the same. */
function seen(...types: string[]): Projection<string[]> {
  return {
    name: `seen ${types.join()}`,
    version: 1,
    filter: { types },
    initial: () => [],
    apply(state, event) {
      state.push(`${event.position} ${event.type} ${JSON.stringify(event.data)}`);
      return state;
    },
  };
}

const projections = [
  seen('key.'),
  seen('user.', 'tagging.'),
  seen('provider_credential.saved'),
  seen('key.', 'budget.'),
  seen('workflow.', 'guardrail.saved', 'guardrail.removed'),
];

/** Every read model with `as_of`, each as its name, its fold, and its saved form. */
const views = [
  view(keysView),
  view(usersView),
  view(virtualModelsView),
  view(workflowsView),
  view(guardrailsView),
  view(budgetsView),
  view(rateLimitsView),
  view(priceOverridesView),
  view(providerCredentialsView),
  view(taggingView),
];

function view<State>(projection: Projection<State>) {
  const { filter, name, save = (state: State) => state } = projection;
  return {
    name,
    types: filter.types ?? [],
    now: (events: RecordedEvent[]) => save(fold(projection, events)),
    past: async (log: EventLog, journal: AdminJournal, until: Position) =>
      save(await foldAsOf(projection, log, journal, until)),
    /** Folded up to there, saved, loaded, and folded on. */
    resumed(events: RecordedEvent[], cut: number) {
      const saved = structuredClone(save(fold(projection, events.slice(0, cut))));
      return save(fold(projection, events.slice(cut), projection.load?.(saved)));
    },
    live: (runner: ProjectionRunner) => {
      const running = runner.run(projection);
      return async (position: Position) => {
        await running.whenProcessed(position);
        return save(running.state);
      };
    },
  };
}

async function journalOf(log: EventLog) {
  const runner = createProjectionRunner(log);
  const journal = runner.run(adminJournal);
  await journal.whenProcessed(await log.head());
  return { journal: journal.state, close: () => runner.close() };
}

describe.each(engines)('a state as of a position, from a log in %s', (engine) => {
  test('is the fold of all events up to it, at every position', async () => {
    await fc.assert(
      fc.asyncProperty(history, async (written) => {
        const { log, discard } = await openTestLog(engine);
        const events = await write(log, written);
        const { journal, close } = await journalOf(log);
        const changes = events.filter(({ type }) => !type.startsWith('chunk.') && type !== 'guardrail.applied');
        for (const projection of projections) {
          const { types = [] } = projection.filter;
          const wanted = events.filter(({ type }) => types.some((one) => type.startsWith(one)));
          for (const until of [START, ...changes.map(({ position }) => position)]) {
            const then = wanted.filter(({ position }) => position <= until);
            expect(await foldAsOf(projection, log, journal, until)).toEqual(fold(projection, then));
          }
        }
        await close();
        await discard();
      }),
      { numRuns: engine === 'file' ? 5 : 25 },
    );
  });

  test("of a view, is the view's own fold of the events by then, live and after a restart alike", async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(), async (written, at) => {
        const { log, discard } = await openTestLog(engine);
        const events = await write(log, written);
        const head = await log.head();
        const { journal, close } = await journalOf(log);
        const runner = createProjectionRunner(log);
        for (const { name, types, now, past, resumed, live } of views) {
          const own = events.filter(({ type }) => types.some((one) => type.startsWith(one)));
          const until = own[at % (own.length + 1)]?.position ?? head;
          const before = own.filter(({ position }) => position <= until);
          expect(await past(log, journal, until), name).toEqual(now(before));
          expect(await past(log, journal, head), name).toEqual(await live(runner)(head));
          expect(JSON.stringify(resumed(own, before.length)), name).toBe(JSON.stringify(now(own)));
        }
        await runner.close();
        await close();
        await discard();
      }),
      { numRuns: engine === 'file' ? 5 : 25 },
    );
  });

  test('at the head is the state of a projection that follows the log', async () => {
    const { log, discard } = await openTestLog(engine);
    await write(log, fc.sample(history, { numRuns: 3, seed: 7 }).flat());
    const runner = createProjectionRunner(log);
    const head = await log.head();
    const { journal, close } = await journalOf(log);
    for (const projection of projections) {
      const live = runner.run(projection);
      await live.whenProcessed(head);
      expect(await foldAsOf(projection, log, journal, head)).toEqual(live.state);
    }
    await close();
    await runner.close();
    await discard();
  });

  test('reads nothing behind the last change of a family, also when the fold does not use that one', async () => {
    const { log, discard } = await openTestLog(engine);
    const removed = {
      stream: streamName('credential', 'one'),
      event: providerCredentialRemoved.create({ name: 'one' }, admin),
    };
    await write(log, [credentialSaved('one'), removed, keyMade('1'), keyMade('2'), credentialSaved('two')]);
    const { journal, close } = await journalOf(log);
    const read: string[] = [];
    const watched: Pick<EventLog, 'readAll'> = {
      async *readAll(options) {
        for await (const event of log.readAll(options)) {
          read.push(event.type);
          yield event;
        }
      },
    };
    const until = '0000000000000003' as Position;
    expect(await foldAsOf(seen('provider_credential.saved'), watched, journal, until)).toHaveLength(1);
    expect(read).toEqual(['provider_credential.saved', 'provider_credential.removed']);
    await close();
    await discard();
  });

  test('reads only the ranges with changes, and not the log between them', async () => {
    const { log, discard } = await openTestLog(engine);
    const between: Written[] = Array.from({ length: 3000 }, () => fc.sample(noise, { numRuns: 1, seed: 1 })).flat();
    await write(log, [keyMade('1'), policySet('/a', ['m']), ...between, keyMade('2'), ...between, keyMade('3')]);
    const { journal, close } = await journalOf(log);
    const begun: string[] = [];
    const watched: Pick<EventLog, 'readAll'> = {
      readAll(options) {
        begun.push(options?.after ?? START);
        return log.readAll(options);
      },
    };
    const state = await foldAsOf(seen('key.'), watched, journal, await log.head());
    expect(state).toHaveLength(3);
    expect(begun.map(Number)).toEqual([0, 3002, 6003]);
    await close();
    await discard();
  });
});
