/**
 * The gateway's own family, on streams `gateway-<instance>` and `log-<engine>`.
 * Leases of the gateways on one log: `lease-<gateway>` has the grant and the end, `gateway-<gateway>` the renewals.
 * Appends of a gateway on a shared log are accepted only while the lease has not ended
 * (`src/commands/gateways/fenced-log.ts`).
 * Jobs that one of the gateways on a log does: `job-<name>`. The gateway that took a job last has it, until it
 * releases it or its lease ends (`src/commands/gateways/jobs.ts`).
 * Guards of rules over several streams: `guard-<rule>`. A change whose validity depends on other streams appends to it
 * at the revision on which it was decided, so only one of two such changes that are made at the same time is accepted.
 * The view family: decisions of operators about read models, on streams `views-skipped` and `views-rebuilds`.
 * The plugin family: plugins that the gateway loaded, on streams `plugin-<name>`, and what they changed in requests.
 */
import { z } from 'zod';
import { streamName } from '../event.ts';
import { defineEvent } from './define.ts';
import { guardrailFailModes } from './guardrail.ts';

export const gatewayStarted = defineEvent({
  type: 'gateway.started',
  when: 'The gateway opened the log and begins to serve.',
  data: z.object({
    version: z.string(),
    node: z.string(),
    durability: z.string(),
    pid: z.number().int(),
    host: z.string().optional().describe('name of its machine'),
  }),
});

export const gatewayStopped = defineEvent({
  type: 'gateway.stopped',
  when: 'The gateway stopped after it had ended every open exchange.',
  data: z.object({ reason: z.string(), cutExchanges: z.number().int() }),
});

/** `gateway`: another gateway on the log was reloaded. */
export const reloadOrigins = ['signal', 'request', 'gateway'] as const;

export const configurationReloaded = defineEvent({
  type: 'configuration.reloaded',
  when: 'The gateway read its settings again. Those that can be changed at run time were changed.',
  data: z.object({
    origin: z
      .enum(reloadOrigins)
      .describe('`signal` and `request`: the other gateways on the log read theirs; `gateway`: it was one of them'),
    changed: z
      .array(
        z.object({
          setting: z.string(),
          before: z.string().optional().describe('absent: it was not set, or is a secret'),
          after: z.string().optional(),
          secret: z.literal(true).optional(),
        }),
      )
      .readonly(),
    needsRestart: z.array(z.string()).readonly().describe('settings that differ and change at the next start'),
  }),
});

export const logRecovered = defineEvent({
  type: 'log.recovered',
  when: 'The gateway opened a log that ended in an incomplete write, and removed that write.',
  data: z.object({
    segment: z.string(),
    keptBytes: z.number().int(),
    cutBytes: z.number().int().describe('bytes after the last whole batch'),
    lostEvents: z
      .number()
      .int()
      .optional()
      .describe('events that had been acknowledged as on disk and are lost, which an operator accepted'),
  }),
});

export const logLossAccepted = defineEvent({
  type: 'log.loss_accepted',
  when: 'An operator accepted that events or files of the log are lost (`chancery log accept-loss`). Lost positions are not used again.',
  data: z.object({
    acceptedAt: z.string(),
    by: z.string(),
    reason: z.string(),
    positions: z
      .array(z.object({ first: z.number().int(), last: z.number().int() }))
      .describe('ranges of lost positions, both ends included'),
    files: z.array(z.string()).describe('the missing files'),
  }),
});

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

export const jobTaken = defineEvent({
  type: 'job.taken',
  when: 'A gateway began to do a job that only one gateway does at a time.',
  data: z.object({ gateway: z.string().describe('id of the gateway') }),
});

export const jobReleased = defineEvent({
  type: 'job.released',
  when: 'The gateway that did the job has ended it, and goes on itself.',
  data: z.object({}),
});

export const guardAdvanced = defineEvent({
  type: 'guard.advanced',
  when: 'A virtual model changed, or a workflow or guardrail: in the same append. Nothing else is in force.',
  data: z.object({}),
});

export const skippedStream = streamName('views', 'skipped');

export const rebuildsStream = streamName('views', 'rebuilds');

export const viewEventSkipped = defineEvent({
  type: 'view.event_skipped',
  when: 'An operator let a read model continue without an event that it could not apply. The event itself stays in the log.',
  data: z.object({
    view: z.string().describe('name of the read model'),
    position: z.string().describe('of the skipped event'),
    eventType: z.string(),
    eventStream: z.string(),
    reason: z.string().describe("the operator's reason"),
    by: z.string().describe("the operator's user name on the machine, or the actor of an administrator's request"),
  }),
});

export const viewRebuildRequested = defineEvent({
  type: 'view.rebuild_requested',
  when: 'An administrator ordered that a read model is built from the log again. Snapshots from before are not used by the next start.',
  data: z.object({
    view: z.string().describe('name of the read model'),
    reason: z.string().optional().describe("the administrator's reason"),
  }),
});

export const pluginLoaded = defineEvent({
  type: 'plugin.loaded',
  when: 'The gateway loaded a plugin that is new or differs from the one it loaded last, before it used it.',
  data: z.object({
    name: z.string().describe('the type of its guardrails'),
    label: z.string(),
    version: z.string().optional(),
    description: z.string().optional(),
    source: z.string().describe('the module or the folder of the package'),
    digest: z.string().describe('SHA-256 over the names and contents of its files, without `node_modules`'),
    hooks: z.array(z.string()).readonly(),
    mutates: z.boolean().describe('whether its guardrails change texts'),
    guardrail: z.boolean(),
    config: z.record(z.string(), z.unknown()).describe('JSON Schema of its settings'),
    routeConfig: z.record(z.string(), z.unknown()).describe('JSON Schema of the settings of its route strategy'),
  }),
});

export const pluginApplied = defineEvent({
  type: 'plugin.applied',
  when:
    'A plugin changed or refused the request before it was routed, or failed; on stream `exchange-<id>`, after ' +
    '`request.received`, which has the headers and the model of the client, and the labels with those of plugins.',
  data: z.object({
    plugin: z.string(),
    digest: z.string().describe('of its files, as in `plugin.loaded`'),
    labels: z.array(z.string()).readonly().optional().describe('labels that it added'),
    headersSet: z.record(z.string(), z.string()).optional(),
    headersRemoved: z.array(z.string()).readonly().optional(),
    model: z.string().optional().describe('the selector in place of that of the client'),
    provider: z.string().optional().describe('the provider in place of that of the client'),
    refused: z
      .object({ status: z.number().int(), code: z.string() })
      .optional()
      .describe('the request ended with this error'),
    error: z.string().optional().describe('of a failure'),
    failMode: z.enum(guardrailFailModes).optional().describe('of a failure; `closed`: the request ended with it'),
    durationNs: z.number().int(),
  }),
});
