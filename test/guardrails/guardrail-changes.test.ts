import { afterEach, describe, expect, it } from 'vitest';
import { sealingPlace } from '../../src/commands/guardrails/guardrail.ts';
import { openTestLog } from '../projections/log-engines.ts';
import {
  admin,
  draft,
  eventsOf,
  guardrail,
  openWorkflows,
  refused,
  sealer,
  steps,
  vaultConfigs,
} from '../workflows/made.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(options: Parameters<typeof openWorkflows>[1] = {}) {
  const test = await openTestLog('memory');
  const one = await openWorkflows(test.log, options);
  closing.push(test.discard, one.close);
  const by = { context: admin };
  return {
    ...one,
    save: (...of: Parameters<typeof guardrail>) => one.guardrailChanges.save(guardrail(...of), by),
    remove: (name: string) => one.guardrailChanges.remove(name, by),
  };
}

describe('a guardrail', () => {
  it('is stored with the defaults of its type', async () => {
    const { save, guardrails, log } = await open();
    await save(' a ', 'watch');
    expect(guardrails.inForce.get('a')).toEqual({
      name: 'a',
      type: 'watch',
      config: { limit: 0 },
      failMode: 'closed',
      timeoutMs: 0,
    });
    await save('a', 'watch', { limit: 0 });
    expect((await eventsOf(log)).map(({ type, stream }) => `${stream} ${type}`)).toEqual([
      'guardrail-a guardrail.saved',
    ]);
  });

  it.each([
    ['an empty name', guardrail(' '), 'name'],
    ['a slash in the name', guardrail('a/b'), 'name'],
    ['a name that is too long', guardrail('a'.repeat(257)), 'name'],
    ['an unknown type', guardrail('a', 'none'), 'type'],
    ['an unknown setting', guardrail('a', 'watch', { depth: 1 }), 'config.depth'],
    ['a setting out of range', guardrail('a', 'watch', { limit: -1 }), 'config.limit'],
    ['a missing setting', guardrail('a', 'vault'), 'config.url'],
    ['a setting that the type refuses', guardrail('a', 'watch', { limit: 13 }), 'config.limit'],
    ['an unknown fail mode', { ...guardrail('a'), failMode: 'ajar' }, 'fail_mode'],
    ['a negative time limit', { ...guardrail('a'), timeoutMs: -1 }, 'timeout_ms'],
    ['a time limit of days', { ...guardrail('a'), timeoutMs: 1e9 }, 'timeout_ms'],
    ['a mask in place of a secret', guardrail('a', 'vault', { url: 'u', token: '********' }), 'config.token'],
    ['a secret that is no text', guardrail('a', 'vault', { url: 'u', token: 5 }), 'config.token'],
  ])('is refused with %s', async (_why, input, param) => {
    const { guardrailChanges, log } = await open();
    expect(await refused(guardrailChanges.save(input, { context: admin }))).toMatchObject({ status: 400, param });
    expect(await eventsOf(log)).toEqual([]);
  });

  it('keeps its secret out of the log, keeps it when the mask is sent, and forgets it when it is empty', async () => {
    const { save, guardrails, log } = await open();
    const token = () => {
      guardrails.prepared('a');
      return vaultConfigs.at(-1);
    };
    await save('a', 'vault', { url: 'http://one', token: 'a secret token' });
    expect(token()).toEqual({ url: 'http://one', token: 'a secret token' });
    await save('a', 'vault', { url: 'http://two', token: '********' });
    expect(token()).toEqual({ url: 'http://two', token: 'a secret token' });
    const sealed = guardrails.inForce.get('a')?.secrets?.['token'] ?? '';
    expect(sealer.open(sealingPlace('a'), 'token', sealed)).toBe('a secret token');
    expect(() => sealer.open(sealingPlace('b'), 'token', sealed)).toThrow();
    await save('a', 'vault', { url: 'http://two', token: '' });
    expect(token()).toEqual({ url: 'http://two' });
    const text = JSON.stringify(await eventsOf(log), (_name, value) =>
      typeof value === 'bigint' ? `${value}` : value,
    );
    expect(text).not.toContain('a secret token');
  });

  it('does not take the secret of another type with it', async () => {
    const { save } = await open();
    await save('a', 'watch');
    expect(await refused(save('a', 'vault', { url: 'u', token: '********' }))).toMatchObject({ param: 'config.token' });
  });

  it('is removed, and is unknown afterwards', async () => {
    const { save, remove, guardrails } = await open();
    await save('a');
    await remove('a');
    expect(guardrails.inForce.get('a')).toBeUndefined();
    expect(await refused(remove('a'))).toMatchObject({ status: 404, type: 'not_found_error' });
  });

  it('is not removed while an active workflow uses it, and is once none does', async () => {
    const { save, remove, changes } = await open();
    await save('a');
    const team = await changes.create(draft({ userPath: '/team', payload: steps('a') }), admin);
    await changes.create(draft({ provider: 'openai', payload: steps('a') }), admin);
    const refusal = await refused(remove('a'));
    expect(refusal).toMatchObject({ status: 400, code: 'guardrail_in_use', param: 'name' });
    expect(refusal.message).toContain('/team, openai');
    await changes.deactivate(team.id, admin);
    await changes.create(draft({ provider: 'openai' }), admin);
    await remove('a');
  });

  it('may be removed while only workflows without guardrails name it', async () => {
    const { save, remove, changes } = await open();
    await save('a');
    const payload = steps('a');
    const features = { ...payload.features, guardrails: false };
    await changes.create(draft({ payload: { ...payload, features } }), admin);
    await remove('a');
  });

  it('keeps a phase in which an active workflow uses it', async () => {
    const { save, changes, directory } = await open();
    await save('a', 'watch', { limit: 1 });
    await changes.create(draft({ userPath: '/team', payload: steps({ ref: 'a', phase: 'stream', step: 0 }) }), admin);
    const otherType = await refused(save('a', 'vault', { url: 'u' }));
    expect(otherType).toMatchObject({ status: 400, code: 'guardrail_in_use' });
    expect(otherType.message).toContain('/team (stream)');
    const noLimit = await refused(save('a', 'watch', { limit: 0 }));
    expect(noLimit.message).toContain('/team (stream)');
    await save('a', 'watch', { limit: 5 });
    expect([...directory.active].map(({ problem }) => problem)).toEqual([undefined]);
  });

  it('does not begin to change texts beside another one that does', async () => {
    const { save, changes } = await open();
    await save('a', 'watch');
    await save('b', 'shout');
    await changes.create(draft({ payload: steps('a', 'b') }), admin);
    expect((await refused(save('a', 'shout'))).message).toContain('both change texts');
  });

  it('is refused when it is not at the revision that the administrator read', async () => {
    const { guardrailChanges } = await open();
    const { revision } = await guardrailChanges.save(guardrail('a'), { context: admin, ifRevision: 'noStream' });
    await guardrailChanges.save(guardrail('a', 'watch', { limit: 1 }), { context: admin, ifRevision: revision });
    const late = guardrailChanges.save(guardrail('a', 'watch', { limit: 2 }), { context: admin, ifRevision: revision });
    expect(await refused(late)).toMatchObject({ status: 409, code: 'revision_mismatch' });
  });

  it('of the configuration is over a stored one of its name, and is not changed here', async () => {
    const declared = new Map([
      ['a', { name: 'a', type: 'watch', config: { limit: 7 }, failMode: 'closed' as const, timeoutMs: 0 }],
    ]);
    const { save, remove, guardrails } = await open({ declared });
    expect(guardrails.inForce.get('a')?.config).toEqual({ limit: 7 });
    expect(guardrails.inForce.keys).toEqual(['a']);
    expect(await refused(save('a'))).toMatchObject({ status: 409, code: 'guardrail_managed' });
    expect(await refused(remove('a'))).toMatchObject({ status: 409, code: 'guardrail_managed' });
  });
});
