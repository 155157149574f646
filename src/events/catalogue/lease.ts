/**
 * Leases of the gateways on one log: `lease-<gateway>` has the grant and the end, `gateway-<gateway>` the renewals. Appends
 * of a gateway on a shared log are accepted only while the lease has not ended (`src/commands/gateways/fenced-log.ts`).
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const gateway = z.string().describe('id of a gateway');

export const leaseGranted = defineEvent({
  type: 'lease.granted',
  when: 'A gateway joined the gateways on this log.',
  data: z.object({
    folder: z.string().describe('id of its data folder, which one gateway uses at a time'),
    leaseMs: z
      .number()
      .int()
      .optional()
      .describe('how long it stays without a renewal; absent where only one gateway can use the log'),
    secrets: z
      .object({ salt: z.string(), credentialsKey: z.string(), masterKey: z.string() })
      .optional()
      .describe('check values (scrypt, base64) of the secrets that all gateways must share'),
  }),
});

export const leaseRenewed = defineEvent({
  type: 'lease.renewed',
  when: 'A gateway renewed its lease, or stated that it has applied a change.',
  data: z.object({
    applied: z.string().describe('every change of the configuration up to this position is in force at the gateway'),
    read: z.string().optional().describe('position up to which the gateway had read the log'),
  }),
});

export const leaseEnded = defineEvent({
  type: 'lease.ended',
  when: 'A gateway left, was replaced by the next start on its data folder, did not renew its lease in time, or was a worker whose process has ended. Nothing that it appends from here on is accepted.',
  data: z.object({
    reason: z.enum(['stopped', 'replaced', 'expired', 'exited']),
    heir: gateway
      .optional()
      .describe('the gateway that ends or continues its open exchanges; absent: the next one that is granted a lease'),
  }),
});
