/** `/admin/plugins`, and the endpoints that exist only while plugins are on. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { GuardrailTypes } from '../../commands/guardrails/guardrail.ts';
import { refusals } from '../../commands/refusal.ts';
import { globalAdmin } from '../api/declare.ts';
import { jsonAnswer, type Routes, type ZodTypes } from '../api/route-schema.ts';
import { guardrailTypeRow, guardrailTypeRows } from './guardrails-rows.ts';

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
  description: z.string(),
  kinds: guardrailTypeRow.shape.phases,
  mutates: z.boolean(),
  guardrail: z.literal(true),
  source: z.literal('builtin'),
  fields: guardrailTypeRow.shape.fields,
  route_fields: z.array(z.never()),
  health: z.literal('ok'),
  error: z.literal(''),
});

const listPlugins = globalAdmin('listPlugins', 'List the plugin types', {
  description: 'Plugins cannot be installed: the list has the built-in guardrail types.',
  response: { 200: jsonAnswer('All of them', z.array(pluginRow)) },
  errors: [503],
});

export function registerPlugins(admin: Routes, types: GuardrailTypes): void {
  admin.get('/plugins', listPlugins, async () =>
    guardrailTypeRows(types).map(
      ({ type, label, description, phases, mutates, fields }): z.input<typeof pluginRow> => ({
        ...{ name: type, label, description, kinds: phases, mutates, guardrail: true, source: 'builtin', fields },
        ...{ route_fields: [], health: 'ok', error: '' },
      }),
    ),
  );
}
