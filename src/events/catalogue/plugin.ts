/** The plugin family: plugins that the gateway loaded, on streams `plugin-<name>`, and what they changed in requests. */
import { z } from 'zod';
import { defineEvent } from './define.ts';
import { guardrailFailModes } from './guardrail.ts';

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
