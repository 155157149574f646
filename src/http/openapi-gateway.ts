/** OpenAPI operations of the gateway's own routes, and of the passthrough to a provider's API. */
import * as answers from './answer-schemas.ts';
import { json, modelErrors, type Operation, textMedia } from './openapi-operation.ts';

export const gatewayOperations: readonly Operation[] = [
  {
    operationId: 'passthrough',
    methods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'],
    path: '/p/{provider}/{path}',
    summary: "Call a provider's own API",
    description:
      'OpenAI-shaped paths go to the `/v1` base of a local server, all others to its root. Errors come in the envelope. ' +
      'A key that does not see everything reaches only routes that concern nothing stored: 403 `passthrough_scope_denied`.',
    tag: 'passthrough',
    pathParameters: { provider: 'A provider name or type', path: 'What follows; slashes stand as they are' },
    request: { required: false, schema: 'any' },
    success: { description: "The provider's answer, with its own status", content: { '*/*': {} } },
    errors: [...modelErrors, 403],
  },
  {
    operationId: 'health',
    methods: ['GET'],
    path: '/health',
    summary: 'Whether the process lives',
    tag: 'operations',
    success: { description: 'It does', content: json(answers.health) },
    errors: [],
    open: true,
  },
  {
    operationId: 'ready',
    methods: ['GET'],
    path: '/health/ready',
    summary: 'Whether requests can be served',
    tag: 'operations',
    success: { description: 'They can', content: json(answers.readiness) },
    otherAnswers: { 503: { description: 'They cannot', content: json(answers.readiness) } },
    errors: [],
    open: true,
  },
  {
    operationId: 'metrics',
    methods: ['GET'],
    path: '/metrics',
    summary: 'Metrics for Prometheus',
    description:
      'For METRICS_KEY, the master key and keys that administer the whole gateway; for every caller with METRICS_PUBLIC. ' +
      'Served elsewhere, or not at all, when so configured.',
    tag: 'operations',
    success: { description: 'In the text format of Prometheus', content: { 'text/plain': textMedia } },
    errors: [401, 403],
  },
  {
    operationId: 'openapi',
    methods: ['GET'],
    path: '/openapi.json',
    summary: 'This description',
    tag: 'operations',
    success: { description: 'An OpenAPI 3.1 document', content: { 'application/json': { type: 'object' } } },
    errors: [],
    open: true,
  },
];
