/** The endpoints of plugins and guardrails. There are none yet, so each answers 503 `feature_unavailable`. */

import type { HTTPMethods } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import type { Routes } from '../api/route-schema.ts';

const endpoints: readonly (readonly [method: HTTPMethods, url: string])[] = [
  ['GET', '/plugins'],
  ['GET', '/guardrails/types'],
  ['GET', '/guardrails'],
  ['PUT', '/guardrails'],
  ['DELETE', '/guardrails'],
  ['GET', '/workflows/guardrails'],
];

/** @param isOn whether the configuration enables plugins or guardrails */
export function registerPlugins(admin: Routes, isOn: boolean): void {
  const message = isOn
    ? 'This version has no plugins and no guardrails. PLUGINS_ENABLED and GUARDRAILS_ENABLED have no effect.'
    : 'Plugins and guardrails are switched off: PLUGINS_ENABLED=false and GUARDRAILS_ENABLED=false.';
  for (const [method, url] of endpoints) {
    admin.route({
      method,
      url,
      config: { access: 'global-admin' },
      handler() {
        throw refusals.featureUnavailable(message);
      },
    });
  }
}
