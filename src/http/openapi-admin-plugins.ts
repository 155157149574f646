/** OpenAPI operations of plugins and guardrails. */
import type { Operation } from './openapi-operation.ts';

const errors = [401, 403, 503];
const unavailable = 'Answers 503 `feature_unavailable` while plugins and guardrails are off.';
const success = { description: 'Nothing yet' };

const operation = (operationId: string, method: string, path: string, summary: string): Operation => ({
  operationId,
  methods: [method],
  path,
  summary,
  description: unavailable,
  tag: 'admin',
  success,
  errors,
});

export const pluginOperations: readonly Operation[] = [
  operation('listPlugins', 'GET', '/admin/plugins', 'The plugin types'),
  operation('listGuardrailTypes', 'GET', '/admin/guardrails/types', 'The guardrail types'),
  operation('listGuardrails', 'GET', '/admin/guardrails', 'The guardrails'),
  operation('saveGuardrail', 'PUT', '/admin/guardrails', 'Create or change a guardrail'),
  operation('deleteGuardrail', 'DELETE', '/admin/guardrails', 'Delete a guardrail'),
  operation('listWorkflowGuardrails', 'GET', '/admin/workflows/guardrails', 'The guardrails for steps of workflows'),
];
