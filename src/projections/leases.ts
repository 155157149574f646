/** The gateways on the log: those whose lease has not ended. */
import { gatewayStarted, jobTaken, leaseEnded, leaseGranted, leaseRenewed } from '../events/catalogue/gateway.ts';
import { idOf, type Position, parsePosition } from '../events/event.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

/** The latest event of each job that one gateway does at a time. */
interface Job {
  readonly name: string;
  /** Undefined when it was released. */
  readonly gateway: string | undefined;
  readonly revision: bigint;
  readonly position: Position;
}

/** By name. */
export type JobsState = Map<string, Job>;

export const jobsView: Projection<JobsState> = {
  name: 'jobs',
  version: 1,
  filter: { streams: ['job-'], types: ['job.'] },
  initial: () => new Map(),
  apply(state, event) {
    const name = idOf(event.stream);
    const gateway = isA(event, jobTaken) ? event.data.gateway : undefined;
    return state.set(name, { name, gateway, revision: event.revision, position: event.position });
  },
  ...savedAsItIs<JobsState>(),
};

export interface GrantedLease {
  readonly gateway: string;
  readonly folder: string;
  readonly leaseMs?: number | undefined;
  readonly secrets?: { readonly salt: string; readonly credentialsKey: string; readonly masterKey: string } | undefined;
  /** Milliseconds since the epoch: when it was granted. */
  readonly since: number;
  /** Milliseconds since the epoch: when it last renewed its lease or stated a change as applied. */
  renewedAt: number;
  readonly grantedAt: Position;
  /** Number of events of the stream `gateway-<gateway>`. */
  events: number;
  applied: Position;
  /** Up to where it had read the log when it last renewed its lease. */
  read: Position;
  /** The events in the log that it had not read then. */
  unread: number;
  /** Undefined until it serves. */
  process?: {
    readonly startedAt: number;
    readonly version: string;
    readonly host?: string | undefined;
    readonly pid: number;
  };
}
/** By gateway. */
export type Leases = Map<string, GrantedLease>;

export const leasesView: Projection<Leases> = {
  name: 'leases',
  version: 5,
  filter: { streams: ['lease-', 'gateway-'], types: ['lease.', 'gateway.'] },
  initial: () => new Map(),
  apply(state, event) {
    const gateway = idOf(event.stream);
    if (isA(event, leaseGranted)) {
      // It serves no request before it has applied everything up to here.
      const { at, position } = event;
      state.set(gateway, {
        ...{ gateway, ...event.data, since: at, renewedAt: at },
        ...{ grantedAt: position, events: 0, applied: position, read: position, unread: 0 },
      });
      return state;
    }
    if (isA(event, leaseEnded)) {
      state.delete(gateway);
      return state;
    }
    const known = state.get(gateway);
    if (known === undefined) return state;
    known.events = Number(event.revision) + 1;
    if (isA(event, leaseRenewed)) {
      const { applied, read } = event.data;
      known.renewedAt = event.at;
      if (applied > known.applied) known.applied = applied as Position;
      if (read !== undefined) {
        known.read = read as Position;
        known.unread = parsePosition(event.position) - parsePosition(read) - 1;
      }
    } else if (isA(event, gatewayStarted)) {
      const { version, host, pid } = event.data;
      known.process = { startedAt: event.at, version, host, pid };
    }
    return state;
  },
  ...savedAsItIs<Leases>(),
};
