/** What each switch of the gateway does. */
import type { Tone } from '../../ui/status-badge.tsx';

const effects: Readonly<Record<string, string>> = {
  LOGGING_ENABLED: 'The audit log: requests can be searched and read.',
  ANALYTICS_ENABLED: 'ClickHouse for reports, search and SQL.',
  LOGGING_RETENTION_DAYS: 'For how many days analytics keeps requests. The event log keeps them all.',
  USAGE_ENABLED: 'Usage and cost are tracked.',
  USAGE_PRICING_RECALCULATION_ENABLED: 'Costs of earlier requests can be computed again.',
  BUDGETS_ENABLED: 'Budgets refuse requests beyond an amount.',
  RATE_LIMITS_ENABLED: 'Rate limits refuse requests beyond a number.',
  GUARDRAILS_ENABLED: 'Guardrails check and change requests and answers.',
  PLUGINS_ENABLED: 'Plugins add rules, guardrails and routing strategies.',
  CACHE_ENABLED: 'Equal requests are answered from the record.',
  SEMANTIC_CACHE_ENABLED: 'Similar requests are answered from the record.',
  MCP_ENABLED: 'Clients can use the tools of MCP servers.',
  FAILOVER_ENABLED: 'A failed request is sent to the next target of a virtual model.',
  ADMIN_UI_ENABLED: 'This dashboard.',
  DASHBOARD_LIVE_LOGS_ENABLED: 'The page Live.',
  USER_PATH_HEADER: 'The header that names the user path of a request.',
  VIRTUAL_MODEL_STRATEGIES: 'The strategies that virtual models can use.',
};

/** Undefined for a switch that this page does not know. */
export function effectOf(name: string): string | undefined {
  return effects[name];
}

/** Whether a value is a switch, and how it is shown. */
export function toneOf(value: string): Tone | undefined {
  return value === 'on' ? 'ok' : value === 'off' ? 'plain' : undefined;
}
