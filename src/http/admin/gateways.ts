/** `GET /admin/gateways`: the gateways on the log. */
import { z } from 'zod';
import type { Position } from '../../events/event.ts';
import { globalAdmin, jsonAnswer, type Routes } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';

/** A gateway whose lease has not ended. Times are milliseconds since the epoch. */
export interface GatewayFacts {
  readonly gateway: string;
  readonly folder: string;
  /** Undefined for a lease that needs no renewal. */
  readonly leaseMs?: number | undefined;
  readonly since: number;
  readonly renewedAt: number;
  readonly applied: Position;
  readonly read: Position;
  /** The events in the log that it had not read then. */
  readonly unread: number;
  /** Undefined until it serves. */
  readonly process?:
    | {
        readonly startedAt: number;
        readonly version: string;
        readonly host?: string | undefined;
        readonly pid: number;
      }
    | undefined;
  readonly isSelf: boolean;
  readonly isLate: boolean;
}

export interface GatewaysListed {
  gateways(): readonly GatewayFacts[];
  /** Up to where this gateway has read the log. */
  head(): Position;
}

const time = z.iso.datetime();
const position = z.string();

const gatewayRow = z.object({
  id: z.string(),
  self: z.boolean().describe('Whether it has answered this request'),
  folder: z.string().describe('Id of its data folder'),
  state: z
    .enum(['starting', 'serving', 'late'])
    .describe('`late`: it has not renewed its lease in time, and another gateway is about to take over'),
  joined_at: time.describe('When its lease was granted'),
  lease_seconds: z.number().nullable().describe('Null where only one gateway can use the log'),
  renewed_at: time.describe('When it last renewed its lease'),
  applied_position: position.describe('Every change of the configuration up to here is in force there'),
  read_position: position.describe('Up to where it had read the log when it last renewed its lease'),
  lag_events: z.int().describe('How many events it had not read then'),
  started_at: time.optional(),
  version: z.string().optional(),
  host: z.string().optional(),
  pid: z.int().optional(),
});

const gatewayList = z.object({
  head: position.describe('Up to where this gateway has read the log'),
  gateways: z.array(gatewayRow),
});

const listGateways = globalAdmin('listGateways', 'List the gateways on the log', {
  description:
    'Those whose leases have not ended, in the order in which they joined. With the log in files, there is one: this.',
  response: { 200: jsonAnswer('The gateways', gatewayList) },
});

export function registerGateways(admin: Routes, listed: GatewaysListed): void {
  admin.get('/gateways', listGateways, () => ({
    head: listed.head(),
    gateways: listed.gateways().map(rowOf),
  }));
}

function rowOf(facts: GatewayFacts): z.infer<typeof gatewayRow> {
  const { process } = facts;
  return {
    id: facts.gateway,
    self: facts.isSelf,
    folder: facts.folder,
    state: facts.isLate ? 'late' : process === undefined ? 'starting' : 'serving',
    joined_at: timeText(facts.since),
    lease_seconds: facts.leaseMs === undefined ? null : facts.leaseMs / 1000,
    renewed_at: timeText(facts.renewedAt),
    applied_position: facts.applied,
    read_position: facts.read,
    lag_events: facts.unread,
    ...(process !== undefined && {
      started_at: timeText(process.startedAt),
      version: process.version,
      ...(process.host !== undefined && { host: process.host }),
      pid: process.pid,
    }),
  };
}
