/** Gateways on one log have the same secrets. Each has a replica of a log in memory. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Lease, sameSecrets } from '../../src/commands/gateways/lease.ts';
import type { SharedSecrets } from '../../src/commands/gateways/shared-secrets.ts';
import type { Position } from '../../src/events/event.ts';
import { type JoinedGateway, joinGateway } from '../support/joined-gateway.ts';
import { MemoryEngineStore } from '../support/memory-engine.ts';

const usual: SharedSecrets = { credentialsKey: 'the credentials key of every gateway', masterKey: 'master' };
let store: MemoryEngineStore;
let gateways: JoinedGateway[];

beforeEach(() => {
  store = new MemoryEngineStore();
  gateways = [];
});
afterEach(async () => {
  for (const gateway of gateways) await gateway.dispose();
});

async function start(folder: string, secrets: SharedSecrets) {
  const gateway = await joinGateway(store);
  gateways.push(gateway);
  const { log, leases } = gateway;
  const lease = await Lease.take({ log, leases, folder, leaseMs: 1000, secrets, now: () => 0 });
  return { ...gateway, lease, checked: sameSecrets(lease, leases, secrets) };
}

describe('secrets of gateways on one log', () => {
  it('are accepted when they are equal, and the log has none of them', async () => {
    const [a, b] = [await start('a', usual), await start('b', usual)];
    await Promise.all([a.checked, b.checked]);
    const texts: string[] = [];
    for await (const { data } of b.log.readAll()) texts.push(JSON.stringify(data));
    expect(texts).toHaveLength(2);
    for (const text of texts) expect(text).not.toMatch(/the credentials|master"|:"master/);
    const salts = [...b.leases.granted.values()].map(({ secrets }) => secrets?.salt);
    expect(new Set(salts).size).toBe(1);
  });

  it.each([
    [
      'a credentials key',
      { credentialsKey: 'another key with thirty-two characters' },
      /^CREDENTIALS_KEY is not the one/,
    ],
    ['a master key', { masterKey: 'another' }, /GATEWAY_MASTER_KEY to the same key on all gateways/],
    ['no master key', { masterKey: undefined }, /^GATEWAY_UNSAFE_OPEN=true needs no key, but/],
  ])(
    'refuse a gateway with %s of its own once the other renews its lease, and leave the other alone',
    async (_, own, why) => {
      const first = await start('a', usual);
      const second = await start('b', { ...usual, ...own });
      const refused = expect(second.checked).rejects.toThrow(why);
      await first.lease.renew('0' as Position);
      await refused;
      await first.checked;
    },
  );

  it('may change when every gateway with the old ones has ended', async () => {
    const [killed, replaced] = [await start('a', usual), await start('b', usual)];
    const changed = { ...usual, credentialsKey: 'the next key of every gateway, 32 characters' };
    const next = await start('b', changed);
    const known = next.leases.granted.get(killed.lease.gateway);
    if (known === undefined) throw new Error('the lease of the killed gateway is not known');
    await next.lease.inheritFrom({ ...known });
    await next.checked;
    expect([...next.leases.granted.keys()]).toEqual([next.lease.gateway]);
    expect(replaced.lease.gateway).not.toBe(next.lease.gateway);
  });
});
