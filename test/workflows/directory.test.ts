import { afterEach, describe, expect, it } from 'vitest';
import { policyOfWorkflow } from '../../src/commands/exchange/policy.ts';
import { explainWorkflow } from '../../src/commands/workflows/directory.ts';
import type { WorkflowFeatures } from '../../src/commands/workflows/workflow.ts';
import { openTestLog } from '../projections/log-engines.ts';
import { admin, allOn, draft, guardrail, openWorkflows, steps } from './made.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(options: Parameters<typeof openWorkflows>[1] = {}) {
  const test = await openTestLog('memory');
  const one = await openWorkflows(test.log, options);
  closing.push(test.discard, one.close);
  await one.changes.manageDefault([]);
  return one;
}

describe('a compiled workflow', () => {
  it('has the guardrails of each phase in steps, ascending, with a hash for each phase', async () => {
    const { changes, guardrailChanges, directory } = await open();
    for (const name of ['a', 'b', 'c']) {
      await guardrailChanges.save(guardrail(name, 'watch', { limit: 1 }), { context: admin });
    }
    await changes.create(
      draft({
        payload: steps(
          { ref: 'c', phase: 'prompt', step: 2 },
          { ref: 'a', phase: 'prompt', step: 1 },
          { ref: 'b', phase: 'prompt', step: 1 },
          { ref: 'a', phase: 'stream', step: 0 },
        ),
      }),
      admin,
    );
    const compiled = directory.select('/', 'openai', 'gpt');
    const names = compiled?.chains?.prompt.map(({ step, guardrails }) => [
      step,
      guardrails.map(({ definition }) => definition.name),
    ]);
    expect(names).toEqual([
      [1, ['a', 'b']],
      [2, ['c']],
    ]);
    expect(compiled?.chains?.response).toEqual([]);
    expect(compiled?.chainHashes).toEqual({
      prompt: expect.stringMatching(/^[0-9a-f]{64}$/),
      stream: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  it('is compiled once, and again after a change of a guardrail, each guardrail once for its definition', async () => {
    const { changes, guardrailChanges, directory, counts } = await open();
    await guardrailChanges.save(guardrail('a', 'watch'), { context: admin });
    await guardrailChanges.save(guardrail('b', 'watch'), { context: admin });
    await changes.create(draft({ userPath: '/a', payload: steps('a') }), admin);
    const before = directory.select('/a', 'openai', 'gpt');
    await changes.create(draft({ userPath: '/b', payload: steps('a', 'b') }), admin);
    await changes.create(draft({ userPath: '/c' }), admin);
    expect(directory.select('/a', 'openai', 'gpt')).toBe(before);
    // Each definition once when it is checked, and once when the recorded one is used.
    expect(counts.prepared).toBe(4);
    await guardrailChanges.save(guardrail('b', 'watch', { limit: 2 }), { context: admin });
    const after = directory.select('/a', 'openai', 'gpt');
    expect(after).not.toBe(before);
    expect(after?.chainHashes).toEqual(before?.chainHashes);
    expect(directory.select('/b', 'openai', 'gpt')?.problem).toBeUndefined();
    expect(counts.prepared).toBe(6);
    await guardrailChanges.save(guardrail('a', 'watch', { limit: 2 }), { context: admin });
    expect(directory.select('/a', 'openai', 'gpt')?.chainHashes).not.toEqual(before?.chainHashes);
  });

  it('has the features that neither it nor the process turns off; budgets need usage', async () => {
    const { changes, directory } = await open({ switches: { ...allOn, failover: false, cache: false } });
    const effective = async (features: Partial<WorkflowFeatures>) => {
      await changes.create(draft({ payload: { features: { ...allOn, ...features } } }), admin);
      return directory.select('/', undefined, undefined)?.effective;
    };
    expect(await effective({})).toEqual({ ...allOn, failover: false, cache: false });
    expect(await effective({ usage: false })).toMatchObject({ usage: false, budget: false });
    expect(await effective({ audit: false })).toMatchObject({ audit: false, usage: true });
  });

  it('compiles no guardrails while the process has them off', async () => {
    const { changes, guardrailChanges, directory } = await open({ switches: { ...allOn, guardrails: false } });
    await guardrailChanges.save(guardrail('a'), { context: admin });
    await changes.create(draft({ payload: steps('a') }), admin);
    const compiled = directory.select('/', undefined, undefined);
    expect(compiled).toMatchObject({ chains: undefined, chainHashes: {}, problem: undefined });
  });

  it('has a problem when one of its guardrails cannot run, and its policy refuses requests', async () => {
    const test = await openTestLog('memory');
    closing.push(test.discard);
    const declared = new Map([
      ['a', { name: 'a', type: 'watch', config: { limit: 0 }, failMode: 'closed' as const, timeoutMs: 0 }],
    ]);
    const first = await openWorkflows(test.log, { declared });
    await first.changes.create(draft({ payload: steps('a') }), admin);
    expect(first.directory.select('/', undefined, undefined)?.problem).toBeUndefined();
    await first.close();
    // The configuration of the next start does not declare the guardrail.
    const next = await openWorkflows(test.log);
    closing.push(next.close);
    const compiled = next.directory.select('/', undefined, undefined);
    expect(compiled).toMatchObject({ problem: "there is no guardrail 'a'", chains: undefined });
    expect(compiled && policyOfWorkflow(compiled, { capture: 'full' }).problem).toBe("there is no guardrail 'a'");
  });
});

describe('the policy of a workflow', () => {
  it('states on each request which features the workflow turns off', async () => {
    const { changes, directory } = await open();
    const features = { ...allOn, audit: false, usage: false, failover: false };
    const { id } = await changes.create(draft({ userPath: '/quiet', payload: { features } }), admin);
    const compiled = directory.select('/quiet', 'openai', 'gpt');
    expect(compiled && policyOfWorkflow(compiled, { capture: 'full' })).toMatchObject({
      workflow: { id, version: 1, scope: 'path:/quiet', off: ['audit', 'usage', 'failover'] },
      capture: 'metadata',
      recordsUsage: false,
      checksBudgets: false,
      failsOver: false,
      cache: undefined,
    });
    const other = directory.select('/', 'openai', 'gpt');
    expect(other && policyOfWorkflow(other, { capture: 'full' })).toMatchObject({
      workflow: { version: 1, scope: 'global', off: ['guardrails'] },
      capture: 'full',
      recordsUsage: true,
      checksBudgets: true,
      failsOver: true,
    });
  });

  it.each([
    ['the defaults', {}, { scope: 'user_path', ttlSeconds: 60, toolCalls: false }],
    [
      'its own',
      { scope: 'shared', ttlSeconds: 5, toolCalls: true },
      { scope: 'shared', ttlSeconds: 5, toolCalls: true },
    ],
    ['no more time than the maximum', { scope: 'key', ttlSeconds: 1_000 }, { scope: 'key', ttlSeconds: 90 }],
  ])('has the cache settings of the workflow: %s', async (_what, cache, expected) => {
    const { changes, directory } = await open();
    await changes.create(draft({ payload: { features: allOn, cache } }), admin);
    const compiled = directory.select('/', 'openai', 'gpt');
    const ofProcess = { capture: 'full' as const, cache: { ttlSeconds: 60, maxTtlSeconds: 90 } };
    expect(compiled && policyOfWorkflow(compiled, ofProcess).cache).toMatchObject(expected);
  });

  it('has no cache where the workflow turns it off, the process has none, or bodies are not recorded', async () => {
    const { changes, directory } = await open();
    const cache = { ttlSeconds: 60, maxTtlSeconds: 90 };
    await changes.create(draft({ userPath: '/off', payload: { features: { ...allOn, cache: false } } }), admin);
    await changes.create(draft({ userPath: '/quiet', payload: { features: { ...allOn, audit: false } } }), admin);
    const policyOf = (path: string, process: Parameters<typeof policyOfWorkflow>[1]) => {
      const compiled = directory.select(path, 'openai', 'gpt');
      if (compiled === undefined) throw new Error('no workflow');
      return policyOfWorkflow(compiled, process).cache;
    };
    expect(policyOf('/', { capture: 'full', cache })).toBeDefined();
    expect(policyOf('/', { capture: 'full' })).toBeUndefined();
    expect(policyOf('/', { capture: 'metadata', cache })).toBeUndefined();
    expect(policyOf('/off', { capture: 'full', cache })).toBeUndefined();
    expect(policyOf('/quiet', { capture: 'full', cache })).toBeUndefined();
  });

  it('never records bodies where the process records none', async () => {
    const { directory } = await open();
    const compiled = directory.select('/', 'openai', 'gpt');
    expect(compiled && policyOfWorkflow(compiled, { capture: 'metadata' }).capture).toBe('metadata');
  });
});

describe('the explanation of a workflow', () => {
  it('names the matching workflow and why each other one does not apply', async () => {
    const { changes, directory } = await open();
    const scopes = [
      { userPath: '/team' },
      { userPath: '/team/alpha' },
      { userPath: '/other' },
      { provider: 'openai', model: 'gpt' },
      { provider: 'openai', model: 'mini', userPath: '/team' },
      { provider: 'local', userPath: '/team' },
    ];
    for (const scope of scopes) await changes.create(draft(scope), admin);
    const question = { userPath: '/team/alpha/x', provider: 'openai', model: 'gpt' };
    const { matching, others, omitted } = explainWorkflow(question, directory);
    expect(matching?.selected.scope).toBe('path:/team/alpha');
    expect(others.map(({ scope, reason }) => [scope, reason])).toEqual([
      ['/team', 'less specific'],
      ['global', 'less specific'],
      ['openai/gpt', 'less specific'],
      ['/other', 'other user path'],
      ['local @ /team', 'other provider'],
      ['openai/mini @ /team', 'other model'],
    ]);
    expect(omitted).toBe(0);
  });

  it('lists at most 100 others, and counts the rest', async () => {
    const { changes, directory } = await open();
    for (let place = 0; place < 110; place++) await changes.create(draft({ userPath: `/p${place}` }), admin);
    const { others, omitted } = explainWorkflow({ userPath: '/p3', provider: undefined, model: undefined }, directory);
    expect([others.length, omitted]).toEqual([100, 10]);
    expect(others[0]).toMatchObject({ scope: 'global', reason: 'less specific' });
  });
});
