/** `/admin/tagging/settings`: which request headers become labels. */
import { z } from 'zod';
import { type TaggingRule, taggingDecider, taggingStream } from '../../commands/tagging/tagging.ts';
import type { EventLog } from '../../events/log.ts';
import type { TaggingState } from '../../projections/keys.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import { globalAdmin, jsonAnswer, type Routes } from '../api/route-schema.ts';
import { eventContextOf } from '../server.ts';
import { sendETag } from './conditional.ts';
import { executeChange } from './resource.ts';

const rule = z.strictObject({
  header: z
    .string()
    .trim()
    .min(1)
    .max(100)
    .regex(/^[!#$%&'*+.^_`|~0-9a-z-]+$/i, 'expected the name of an HTTP header')
    .toLowerCase(),
  prefix: z.string().max(100).optional(),
  delimiter: z.string().max(10).optional().describe('Default: a comma'),
  do_not_pass: z.boolean().optional().describe('The header is not forwarded to the provider'),
});

const settings = z.object({
  headers: z.array(
    z.object({
      header: z.string(),
      prefix: z.string().optional(),
      delimiter: z.string(),
      do_not_pass: z.boolean(),
      managed: z.literal(true).optional().describe('Part of the configuration, and read-only here'),
    }),
  ),
  editable: z.boolean(),
});

const getSettings = globalAdmin('getTaggingSettings', 'List the request headers that become labels', {
  exposeHeadRoute: false,
  etag: true,
  response: { 200: jsonAnswer('The rules, those of the configuration first', settings) },
});

const setSettings = globalAdmin('setTaggingSettings', 'Replace the rules by which request headers become labels', {
  ifMatch: '/tagging/settings',
  description: 'The rules of the configuration stay, and cannot be sent.',
  body: z.strictObject({ headers: z.array(rule) }),
  example: { headers: [{ header: 'x-team', prefix: 'team:' }] },
  response: { 200: jsonAnswer('The rules, those of the configuration first', settings) },
});

export interface TaggingOptions {
  readonly log: EventLog;
  readonly set: Pick<RunningProjection<TaggingState>, 'state' | 'whenProcessed'>;
  /** The rules of the configuration. */
  readonly managed: readonly TaggingRule[];
}

export function registerTagging(admin: Routes, { log, set, managed }: TaggingOptions): void {
  const view = () => ({
    headers: [...managed.map((one) => toWire(one, true)), ...set.state.headers.map((one) => toWire(one, false))],
    editable: true,
  });

  admin.get('/tagging/settings', getSettings, (_request, reply) => {
    sendETag(reply, set.state.revision ?? 'noStream');
    return view();
  });

  admin.put('/tagging/settings', setSettings, async (request, reply) => {
    const command = {
      rules: request.body.headers.map(fromWire),
      managed: new Set(managed.map(({ header }) => header)),
      context: eventContextOf(request),
    };
    const { whenProcessed } = set;
    await executeChange(taggingDecider, command, { log, stream: taggingStream, whenProcessed }, { request, reply });
    return view();
  });
}

function fromWire({ header, prefix = '', delimiter = '', do_not_pass = false }: z.infer<typeof rule>): TaggingRule {
  return { header, prefix, delimiter: delimiter === '' ? ',' : delimiter, doNotPass: do_not_pass };
}

function toWire({ header, prefix, delimiter, doNotPass }: TaggingRule, managed: boolean) {
  return {
    header,
    ...(prefix === '' ? {} : { prefix }),
    delimiter,
    do_not_pass: doNotPass,
    ...(managed ? { managed } : {}),
  };
}
