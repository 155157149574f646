/** The endpoints of plugins and guardrails. There are none yet, so each answers 503 `feature_unavailable`. */
import type { HTTPMethods } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import { globalAdmin } from '../api/declare.ts';
import { emptyAnswer, type Routes } from '../api/route-schema.ts';

const endpoints: readonly (readonly [operationId: string, method: HTTPMethods, url: string, summary: string])[] = [
  ['listPlugins', 'GET', '/plugins', 'List the plugin types'],
  ['listGuardrailTypes', 'GET', '/guardrails/types', 'List the guardrail types'],
  ['listGuardrails', 'GET', '/guardrails', 'List the guardrails'],
  ['saveGuardrail', 'PUT', '/guardrails', 'Create or change a guardrail'],
  ['deleteGuardrail', 'DELETE', '/guardrails', 'Delete a guardrail'],
  ['listWorkflowGuardrails', 'GET', '/workflows/guardrails', 'List the guardrails for steps of workflows'],
];

/** @param isOn whether the configuration enables plugins or guardrails */
export function registerPlugins(admin: Routes, isOn: boolean): void {
  const message = isOn
    ? 'This version has no plugins and no guardrails. PLUGINS_ENABLED and GUARDRAILS_ENABLED have no effect.'
    : 'Plugins and guardrails are switched off: PLUGINS_ENABLED=false and GUARDRAILS_ENABLED=false.';
  for (const [operationId, method, url, summary] of endpoints) {
    admin.route({
      method,
      url,
      ...globalAdmin(operationId, summary, {
        description: 'Not supported: 503 `feature_unavailable`.',
        response: { 200: emptyAnswer('Not used') },
      }),
      handler() {
        throw refusals.featureUnavailable(message);
      },
    });
  }
}
