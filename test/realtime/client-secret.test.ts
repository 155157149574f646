/** When a client secret is accepted: for how long, with which master key, and sealed by which gateways. */
import { describe, expect, it } from 'vitest';
import { createSealer } from '../../src/commands/credentials/credential.ts';
import { createClientSecret, openClientSecret, sessionOfSecret } from '../../src/commands/realtime/client-secret.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { everything } from '../../src/commands/visibility.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { createAuthenticator } from '../../src/http/auth.ts';

const log = new MemoryLog();
const master = { actor: 'master', authMethod: 'master_key', visibility: everything } as const;
const context = { actor: 'master' } as const;
const session = { model: 'openai/gpt-realtime', instructions: 'Be brief.' };

function gatewayWith(masterKey: string, key = 'a key for credentials of 32 characters') {
  const sealer = createSealer(key);
  const sealers = { toSeal: () => sealer, toOpen: () => sealer };
  let now = 1_000_000;
  const authenticator = createAuthenticator({
    masterKey,
    userPathHeader: undefined,
    keys: { byHash: () => undefined, byId: () => undefined, imported: undefined },
    openClientSecret: (text) => openClientSecret(text, sealers),
    now: () => now,
  });
  return {
    create: () =>
      createClientSecret({ session, expires_after: { seconds: 10 } }, master, context, {
        ...{ log, sealers, masterKey, now: () => now },
      }),
    wait(ms: number) {
      now += ms;
    },
    /** The code of the refusal; undefined when it is accepted. */
    refusalOf(value: string, isAccepted = true): string | null | undefined {
      const headers = { authorization: `Bearer ${value}` };
      try {
        const config = { access: 'any-key', ...(isAccepted && { clientSecrets: true }) };
        const caller = authenticator.authenticate({ headers, socket: {}, routeOptions: { config } as never });
        expect(caller.clientSecret).toEqual(expect.any(String));
        return undefined;
      } catch (error) {
        return error instanceof Refusal ? error.code : String(error);
      }
    },
  };
}

describe('a client secret', () => {
  it('is not created while the key that seals it cannot be written to the disk', async () => {
    const toSeal = () => {
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC', syscall: 'write' });
    };
    const sealers = { toSeal, toOpen: toSeal };
    const creating = createClientSecret({ session }, master, context, {
      log,
      sealers,
      masterKey: 'any',
      now: Date.now,
    });
    await expect(creating).rejects.toMatchObject({ code: 'log_unavailable', outcome: 'none' });
  });

  it('is accepted until it expires, and only where a route accepts such', async () => {
    const gateway = gatewayWith('the master key');
    const { value, expires_at } = await gateway.create();
    expect(expires_at).toBe(1010);
    expect(gateway.refusalOf(value)).toBeUndefined();
    expect(gateway.refusalOf(value, false)).toBe('client_secret_not_accepted');
    gateway.wait(9_999);
    expect(gateway.refusalOf(value)).toBeUndefined();
    gateway.wait(1);
    expect(gateway.refusalOf(value)).toBe('client_secret_expired');
  });

  it('of the master key ends with it, and is accepted by gateways with the same key for credentials', async () => {
    const { value } = await gatewayWith('the master key').create();
    expect(gatewayWith('the master key').refusalOf(value)).toBeUndefined();
    expect(gatewayWith('another master key').refusalOf(value)).toBe('invalid_api_key');
    const other = gatewayWith('the master key', 'another key for credentials of 32 characters');
    expect(other.refusalOf(value)).toBe('invalid_api_key');
  });

  it('has its configuration in the log, and itself only by its hash', async () => {
    const gateway = gatewayWith('the master key');
    const { value } = await gateway.create();
    const { id } = openClientSecret(value, {
      toOpen: () => createSealer('a key for credentials of 32 characters'),
    }) ?? { id: '' };
    expect(await sessionOfSecret(id, log)).toEqual(session);
    for await (const event of log.readAll({})) {
      expect(JSON.stringify(event.data)).not.toContain(value);
      expect(Buffer.from(event.body ?? []).toString()).not.toContain(value);
    }
    await expect(sessionOfSecret('unknown', log)).rejects.toMatchObject({ code: 'invalid_api_key' });
  });
});
