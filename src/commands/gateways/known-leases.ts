/** The leases of the gateways on the log, as far as the log was read here. */
import type { Position } from '../../events/event.ts';
import type { SecretChecks } from './shared-secrets.ts';

export interface KnownLease {
  readonly gateway: string;
  /** Id of its data folder. */
  readonly folder: string;
  /** Undefined for a lease that needs no renewal: only one gateway can use its log. */
  readonly leaseMs?: number | undefined;
  /** Absent where only one gateway can use the log. */
  readonly secrets?: SecretChecks | undefined;
  readonly grantedAt: Position;
  /** Number of events of the stream `gateway-<gateway>`. */
  readonly events: number;
  /** Every change of the configuration up to this position is in force at the gateway. */
  readonly applied: Position;
}

export interface KnownLeases {
  /** Those that have not ended, by gateway, in the order in which they were granted. */
  readonly granted: ReadonlyMap<string, KnownLease>;
  /** Resolves when everything up to this position was read. */
  whenProcessed(position: Position): Promise<void>;
  /** Resolves after the next change of a lease. */
  changed(): Promise<void>;
}
