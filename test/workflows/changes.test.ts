import { afterEach, describe, expect, it } from 'vitest';
import { readVersion } from '../../src/commands/workflows/changes.ts';
import type { WorkflowStep } from '../../src/commands/workflows/workflow.ts';
import { foldAsOf } from '../../src/projections/admin-history.ts';
import { guardrailsView, workflowsView } from '../../src/projections/workflows.ts';
import { engines, openTestLog, type TestLog } from '../projections/log-engines.ts';
import { admin, allOn, draft, eventsOf, guardrail, openWorkflows, refused, steps } from './made.ts';

describe.each(engines)('workflows on a log in %s', (engine) => {
  const opened: { close(): Promise<void> }[] = [];
  const logs: TestLog[] = [];

  async function open() {
    const test = await openTestLog(engine);
    logs.push(test);
    return again(test);
  }

  /** What a second start of the gateway sees. */
  async function again(test: TestLog) {
    const one = await openWorkflows(test.log);
    opened.push(one);
    return { ...one, test };
  }

  afterEach(async () => {
    await Promise.all(opened.splice(0).map(({ close }) => close()));
    await Promise.all(logs.splice(0).map(({ discard }) => discard()));
  });

  it('are in force as soon as they are created, and the newest version alone', async () => {
    const { changes, directory } = await open();
    await changes.manageDefault([]);
    expect(directory.select('/team', 'openai', 'gpt')?.workflow).toMatchObject({ managedDefault: true, version: 1 });
    const first = await changes.create(draft({ name: 'one', userPath: '/team' }), admin);
    expect(directory.select('/team/x', 'openai', 'gpt')?.workflow).toEqual(first);
    const second = await changes.create(draft({ name: 'two', userPath: '/team' }), admin);
    expect(second).toMatchObject({ version: 2, supersedes: first.id, name: 'two' });
    expect(directory.select('/team', undefined, undefined)?.workflow.id).toBe(second.id);
    expect(directory.activeById(first.id)).toBeUndefined();
    await changes.deactivate(second.id, admin);
    expect(directory.select('/team', 'openai', 'gpt')?.workflow.managedDefault).toBe(true);
  });

  it('are read with their first content when they are not active any more', async () => {
    const { changes, directory, log } = await open();
    const first = await changes.create(draft({ name: 'one', userPath: '/team' }), admin);
    await changes.create(draft({ name: 'two', userPath: '/team' }), admin);
    const place = directory.placeOf(first.id);
    expect(place).toEqual({ key: 'path:/team', revision: 0 });
    expect(place && (await readVersion(place, log))).toEqual({ workflow: first, createdAt: expect.any(Number) });
    expect(await readVersion({ key: 'path:/team', revision: 9 }, log)).toBeUndefined();
  });

  it('are not deactivated twice, nor when they are unknown', async () => {
    const { changes } = await open();
    const { id } = await changes.create(draft({ userPath: '/team' }), admin);
    await changes.deactivate(id, admin);
    expect(await refused(changes.deactivate(id, admin))).toMatchObject({ status: 400, param: 'id' });
    expect(await refused(changes.deactivate('nothing', admin))).toMatchObject({ status: 404 });
  });

  it('name only guardrails that exist, in phases that they have, with one that changes texts in a step', async () => {
    const { changes, guardrailChanges } = await open();
    const create = (...of: (WorkflowStep | string)[]) => changes.create(draft({ payload: steps(...of) }), admin);
    const stream = { ref: 'watch', phase: 'stream', step: 0 } as const;
    expect(await refused(create('loud'))).toMatchObject({ status: 400, message: "There is no guardrail 'loud'." });
    await guardrailChanges.save(guardrail('loud', 'shout'), { context: admin });
    await guardrailChanges.save(guardrail('louder', 'shout'), { context: admin });
    await guardrailChanges.save(guardrail('watch'), { context: admin });
    expect((await refused(create({ ...stream, ref: 'loud' }))).message).toContain('has no stream phase');
    expect((await refused(create(stream))).message).toContain("it needs a 'limit'");
    expect((await refused(create('loud', 'watch', 'louder'))).message).toContain('both change texts in step 0');
    await create('loud', 'watch', { ref: 'louder', phase: 'prompt', step: 1 }, { ...stream, phase: 'response' });
  });

  it('and guardrails do not contradict each other when both change at the same time', async () => {
    const { changes, guardrailChanges, directory } = await open();
    await guardrailChanges.save(guardrail('a'), { context: admin });
    for (let round = 0; round < 5; round++) {
      const [created, removed] = await Promise.allSettled([
        changes.create(draft({ payload: steps('a') }), admin),
        guardrailChanges.remove('a', { context: admin }),
      ]);
      expect([created.status, removed.status].sort()).toEqual(['fulfilled', 'rejected']);
      expect([...directory.active].map(({ problem }) => problem)).toEqual([undefined]);
      await changes.create(draft(), admin);
      await guardrailChanges.save(guardrail('a'), { context: admin });
    }
  });

  it('of two gateways on one log are all recorded, with a version each', async () => {
    const one = await open();
    const other = await again(one.test);
    const made = await Promise.all(
      [one, other, one, other].map(({ changes }, place) => changes.create(draft({ name: `n${place}` }), admin)),
    );
    expect(made.map(({ version }) => version).sort()).toEqual([1, 2, 3, 4]);
    await Promise.all([one, other].map(async ({ states, log }) => states.workflows.whenProcessed(await log.head())));
    const newest = made.find(({ version }) => version === 4);
    expect(one.directory.select('/', undefined, undefined)?.workflow).toEqual(newest);
    expect(other.directory.select('/', undefined, undefined)?.workflow).toEqual(newest);
  });

  it('have one default, however many gateways start at the same time, and however often', async () => {
    const one = await open();
    const other = await again(one.test);
    await Promise.all([one.changes.manageDefault([]), other.changes.manageDefault([])]);
    await one.changes.manageDefault([]);
    const events = await eventsOf(one.log);
    expect(events.map(({ type, context }) => [type, context.actor])).toEqual([['workflow.created', 'system']]);
    await one.changes.create(draft({ name: 'ours' }), admin);
    await one.changes.manageDefault([{ ref: 'a', phase: 'prompt', step: 0 }]);
    expect(one.directory.select('/', undefined, undefined)?.workflow).toMatchObject({ name: 'ours', version: 2 });
  });

  it('are the same after a restart, from the log alone', async () => {
    const before = await open();
    const { changes, guardrailChanges } = before;
    await changes.manageDefault([]);
    await guardrailChanges.save(guardrail('a', 'vault', { url: 'http://a', token: 'hush' }), { context: admin });
    const one = await changes.create(draft({ userPath: '/team', payload: steps('a') }), admin);
    await changes.create(
      draft({ provider: 'openai', payload: { features: allOn, guardrails: [{ ref: 'a' }] } }),
      admin,
    );
    await changes.create(draft({ userPath: '/team', payload: steps({ ref: 'a', phase: 'prompt', step: 3 }) }), admin);
    await guardrailChanges.save(guardrail('a', 'vault', { url: 'http://b', token: '********' }), { context: admin });
    const after = await again(before.test);
    const shown = ({ directory }: typeof before) =>
      [...directory.active].map(({ workflow, effective, chainHashes, problem }) => ({
        workflow,
        effective,
        chainHashes,
        problem,
      }));
    expect(shown(after)).toEqual(shown(before));
    expect(shown(after)).toHaveLength(3);
    expect(after.directory.placeOf(one.id)).toEqual(before.directory.placeOf(one.id));
  });

  it('can be asked for as of any position', async () => {
    const { changes, guardrailChanges, log, states } = await open();
    await changes.manageDefault([]);
    await guardrailChanges.save(guardrail('a'), { context: admin });
    const then = await log.head();
    const before = {
      active: [...states.workflows.state.active.keys()],
      guardrails: [...states.guardrails.state.byKey.keys()],
    };
    await changes.create(draft({ userPath: '/team', payload: steps('a') }), admin);
    await guardrailChanges.save(guardrail('b'), { context: admin });
    await states.journal.whenProcessed(await log.head());
    const journal = states.journal.state;
    const workflows = await foldAsOf(workflowsView, log, journal, then);
    const guardrails = await foldAsOf(guardrailsView, log, journal, then);
    expect({ active: [...workflows.active.keys()], guardrails: [...guardrails.byKey.keys()] }).toEqual(before);
    expect(before).toEqual({ active: ['global'], guardrails: ['a'] });
    const now = await foldAsOf(workflowsView, log, journal, await log.head());
    expect([...now.active.keys()]).toEqual(['global', 'path:/team']);
  });
});
