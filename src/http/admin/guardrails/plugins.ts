/** `/admin/plugins`, and the endpoints that exist only while plugins are on. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { GuardrailTypes } from '../../../commands/guardrails/guardrail.ts';
import { refusals } from '../../../commands/refusal.ts';
import type { RouteStrategies } from '../../../commands/virtual-models/virtual-model.ts';
import { globalAdmin, jsonAnswer, type Routes, type ZodTypes } from '../../api/route-schema.ts';
import { guardrailTypeRow, guardrailTypeRows } from './guardrails.ts';

/**
 * Registers routes that answer 503 `feature_unavailable`, before the body is read, while plugins are off.
 * @param isOn whether the configuration enables plugins or guardrails
 */
export function whilePluginsAreOn(admin: Routes, isOn: boolean, register: (routes: Routes) => void): void {
  admin.register(async (plugin: FastifyInstance) => {
    if (!isOn) {
      plugin.addHook('onRequest', async () => {
        throw refusals.featureUnavailable(
          'Plugins and guardrails are switched off: PLUGINS_ENABLED=false and GUARDRAILS_ENABLED=false.',
        );
      });
    }
    register(plugin.withTypeProvider<ZodTypes>());
  });
}

const pluginRow = z.object({
  name: z.string(),
  label: z.string(),
  version: z.string().optional(),
  description: z.string(),
  kinds: z
    .array(z.enum(['request', 'prompt', 'response', 'stream', 'route', 'complete']))
    .readonly()
    .describe('the hooks'),
  mutates: z.boolean(),
  guardrail: z.boolean(),
  source: z.string().describe('`builtin`, or the module or folder that it was loaded from'),
  digest: z.string().optional().describe('SHA-256 of its files'),
  fields: guardrailTypeRow.shape.fields,
  route_fields: guardrailTypeRow.shape.fields.describe('of `strategy_config` of virtual models'),
  health: z
    .enum(['ok', 'starting', 'restarting', 'failed', 'stopped'])
    .describe('`restarting` after a failure of its process; `failed` when it does not run'),
  error: z.string().describe('the last failure of its process; empty when there was none'),
  counters: z
    .object({
      calls: z.number().int(),
      failures: z.number().int().describe('calls without a result'),
      restarts: z.number().int().describe('of its process'),
      dropped: z.number().int().describe('ended exchanges that it was not called for, because too many waited'),
    })
    .optional(),
});

export type PluginRow = z.input<typeof pluginRow>;

const { name, label, version, description, kinds, mutates, guardrail, fields, route_fields } = pluginRow.shape;
const manifest = z.object({
  name,
  label,
  version,
  description,
  hooks: kinds,
  mutates,
  guardrail,
  fields,
  route_fields,
});
const listedPlugin = pluginRow.extend({ manifest: manifest.describe('what the plugin states about itself') });

function listed(row: PluginRow): z.input<typeof listedPlugin> {
  const {
    kinds: hooks,
    source: _source,
    digest: _digest,
    health: _health,
    error: _error,
    counters: _counters,
    ...of
  } = row;
  return { ...row, manifest: { ...of, hooks } };
}

const listPlugins = globalAdmin('listPlugins', 'List the plugin types', {
  description:
    'The built-in guardrail types and route strategies, the plugins that are loaded, and those that could not be.',
  response: { 200: jsonAnswer('All of them', z.array(listedPlugin)) },
  errors: [503],
});

interface PluginsListed {
  readonly types: GuardrailTypes;
  readonly routeStrategies: Pick<RouteStrategies, 'list'>;
  plugins(): PluginRow[];
}

export function registerPlugins(admin: Routes, { types, routeStrategies, plugins }: PluginsListed): void {
  admin.get('/plugins', listPlugins, async () =>
    [
      ...builtIn(types).map(
        ({ type, label, description, phases, mutates, fields }): z.input<typeof pluginRow> => ({
          ...{ name: type, label, description, kinds: phases, mutates, guardrail: true, source: 'builtin', fields },
          ...{ route_fields: [], health: 'ok', error: '' },
        }),
      ),
      ...routeStrategies
        .list()
        .filter(({ source }) => source === undefined)
        .map(
          ({ name, label, description, routeFields }): z.input<typeof pluginRow> => ({
            ...{ name, label, description, kinds: ['route'], mutates: false, guardrail: false, source: 'builtin' },
            ...{ fields: [], route_fields: routeFields, health: 'ok', error: '' },
          }),
        ),
      ...plugins(),
    ].map(listed),
  );
}

function builtIn(types: GuardrailTypes) {
  return guardrailTypeRows(types).filter(({ source }) => source === 'builtin');
}
