/** A gateway whose secrets differ from those of a gateway that was there before does not start. */
import type { KnownLease, KnownLeases } from './known-leases.ts';
import type { Lease } from './lease.ts';
import { checksOf, type DifferentSecret, differentSecret, type SharedSecrets } from './shared-secrets.ts';

export class DifferentSecrets extends Error {
  readonly code = 'different_secrets';
  constructor(secret: DifferentSecret, gateway: string, hasMasterKey: boolean) {
    super(messages[secret](gateway, hasMasterKey));
  }
}

const messages: Readonly<Record<DifferentSecret, (gateway: string, hasMasterKey: boolean) => string>> = {
  credentialsKey: (gateway) =>
    `CREDENTIALS_KEY is not the one of gateway ${gateway}, which uses the same log. Set the same key on all gateways; to change it, stop all of them first.`,
  masterKey: (gateway, hasMasterKey) =>
    hasMasterKey
      ? `the master key is not the one of gateway ${gateway}, which uses the same log. Set GATEWAY_MASTER_KEY to the same key on all gateways (without it each one creates its own, in DATA_DIR/master.key); to change it, stop all of them first.`
      : `GATEWAY_UNSAFE_OPEN=true needs no key, but gateway ${gateway}, which uses the same log, has a master key. Set both equally on all gateways.`,
};

/**
 * Resolves when no gateway that has had its lease before has other secrets. One that has is waited for until it renews its
 * lease, or others end it: it may have crashed.
 * @throws DifferentSecrets
 */
export async function sameSecrets(lease: Pick<Lease, 'gateway'>, leases: KnownLeases, secrets: SharedSecrets) {
  const mine = leases.granted.get(lease.gateway)?.secrets ?? (await checksOf(secrets));
  for (const { gateway, events, secrets: theirs } of earlier(leases, lease.gateway)) {
    const different = theirs && (await differentSecret(secrets, mine, theirs));
    if (different === undefined) continue;
    while (leases.granted.get(gateway)?.events === events) await leases.changed();
    if (leases.granted.has(gateway)) throw new DifferentSecrets(different, gateway, secrets.masterKey !== undefined);
  }
}

function earlier({ granted }: KnownLeases, own: string): KnownLease[] {
  const all = [...granted.values()];
  // The fold changes them in place.
  return all
    .slice(
      0,
      all.findIndex(({ gateway }) => gateway === own),
    )
    .map((one) => ({ ...one }));
}
