/** The gateways on the log: those whose lease has not ended. */
import { z } from 'zod';
import { gatewayStarted, jobTaken, leaseEnded, leaseGranted, leaseRenewed } from '../events/catalogue/gateway.ts';
import { idOf, type Position, parsePosition } from '../events/event.ts';
import { isA, type Projection } from './projection.ts';

/** The latest event of each job that one gateway does at a time. */
const job = z.object({
  name: z.string(),
  /** Undefined when it was released. */
  gateway: z.string().optional(),
  revision: z.string().transform(BigInt),
  position: z.string().transform((text) => text as Position),
});

/** By name. */
export type JobsState = Map<string, z.infer<typeof job>>;

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
  save: (state) => [...state.values()].map((one) => ({ ...one, revision: String(one.revision) })),
  load: (saved) =>
    new Map(
      z
        .array(job)
        .parse(saved)
        .map((one) => [one.name, one]),
    ),
};

const lease = z.object({
  gateway: z.string(),
  folder: z.string(),
  leaseMs: z.number().optional(),
  secrets: z.object({ salt: z.string(), credentialsKey: z.string(), masterKey: z.string() }).optional(),
  /** Milliseconds since the epoch: when it was granted. */
  since: z.number(),
  /** Milliseconds since the epoch: when it last renewed its lease or stated a change as applied. */
  renewedAt: z.number(),
  grantedAt: z.string().transform((text) => text as Position),
  /** Number of events of the stream `gateway-<gateway>`. */
  events: z.number(),
  applied: z.string().transform((text) => text as Position),
  /** Up to where it had read the log when it last renewed its lease. */
  read: z.string().transform((text) => text as Position),
  /** The events in the log that it had not read then. */
  unread: z.number(),
  /** Undefined until it serves. */
  process: z
    .object({ startedAt: z.number(), version: z.string(), host: z.string().optional(), pid: z.number() })
    .optional(),
});

export type GrantedLease = z.infer<typeof lease>;
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
  save: (state) => [...state.values()],
  load: (saved) =>
    new Map(
      z
        .array(lease)
        .parse(saved)
        .map((one) => [one.gateway, one]),
    ),
};
