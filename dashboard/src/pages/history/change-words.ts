/** The types of administrators' changes in words. Pure. */

const words: Readonly<Record<string, string>> = {
  'key.created': 'Key created',
  'key.labels_changed': 'Labels changed',
  'key.allowed_models_changed': 'Allowed models changed',
  'key.allowed_cidrs_changed': 'Allowed networks changed',
  'key.dashboard_access_changed': 'Dashboard access changed',
  'key.user_path_header_changed': 'User path header changed',
  'key.renamed': 'Key renamed',
  'key.expiry_changed': 'Expiry changed',
  'key.rotated': 'Secret rotated',
  'key.deactivated': 'Key deactivated',
  'key.reactivated': 'Key reactivated',
  'user.policy_set': 'Model policy set',
  'user.policy_removed': 'Model policy removed',
  'virtual_model.saved': 'Virtual model saved',
  'virtual_model.removed': 'Virtual model removed',
  'workflow.created': 'Version of the workflow created',
  'workflow.deactivated': 'Workflow deactivated',
  'guardrail.saved': 'Guardrail saved',
  'guardrail.removed': 'Guardrail removed',
  'price.override_set': 'Price set',
  'price.override_removed': 'Price removed',
  'budget.set': 'Budget set',
  'budget.removed': 'Budget removed',
  'budget.reset': 'Spending reset',
  'budget_settings.changed': 'Beginning of budget periods changed',
  'rate_limit.set': 'Rate limit set',
  'rate_limit.removed': 'Rate limit removed',
  'rate_limit.reset': 'Counts reset',
  'provider_credential.saved': 'Provider saved',
  'provider_credential.removed': 'Provider removed',
  'mcp_server.saved': 'MCP server saved',
  'mcp_server.removed': 'MCP server removed',
  'mcp_tool.accepted': 'Changed tool accepted',
  'tagging.changed': 'Label headers changed',
  'provider.configured': 'Provider configured',
  'provider.removed': 'Provider no longer configured',
  'provider.models_listed': 'Models listed',
  'provider.became_unavailable': 'Provider unavailable',
  'provider.became_available': 'Provider available again',
  'provider.capability_learned': 'Capability learned',
  'provider.circuit_changed': 'Circuit breaker changed',
  'cache.purged': 'Cached answers removed',
  'view.event_skipped': 'Event skipped by a read model',
  'view.rebuild_requested': 'Rebuild of a read model requested',
  'audit.read': 'Recorded content read',
};

/** @returns the type itself when it has no words */
export function changeWords(type: string): string {
  return words[type] ?? type;
}

export function hasWords(type: string): boolean {
  return type in words;
}

/** Of an event in words: for reads, what was read. */
export function titleOf(type: string, after: Readonly<Record<string, unknown>> | null): string {
  if (type === 'audit.read' && after?.['what'] === 'sql') return 'SQL query';
  return changeWords(type);
}
