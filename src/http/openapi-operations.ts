/** Every route of the gateway, as its description tells of it. */
import { z } from 'zod';
import { chatRequestSchema } from '../commands/chat/chat-request.ts';
import {
  addItemsSchema,
  createConversationSchema,
  updateConversationSchema,
} from '../commands/conversations/conversation-request.ts';
import { embeddingsRequestSchema } from '../commands/embeddings/embeddings-request.ts';
import { countTokensRequestSchema, messagesRequestSchema } from '../commands/messages/messages-request.ts';
import { createRequestSchema } from '../commands/responses/create-request.ts';
import * as answers from './answer-schemas.ts';
import { forwardedOperations } from './openapi-forwarded.ts';
import type { Operation, Parameter } from './openapi-operation.ts';

const text = { type: 'string' };
const json = (schema: z.ZodType) => ({ 'application/json': schema });
const jsonOrStream = (schema: z.ZodType) => ({ 'application/json': schema, 'text/event-stream': text });
const query = (name: string, description: string, schema: z.ZodType = z.string()): Parameter => ({
  name,
  in: 'query',
  description,
  schema,
});

const modelErrors = [400, 401, 404, 409, 413, 429, 502, 503, 504];
const lifecycleErrors = [400, 401, 404, 501, 502, 503];
const provider = query('provider', 'Who is asked for a response that is not stored here: a provider name or type');
const conversationErrors = [400, 401, 404, 409, 413, 503];
const conversationId = { id: 'The id of the conversation' };
const conversationItem = { ...conversationId, item: 'The id of the item' };
const responseId = { id: 'The id of the response' };

const pageParameters = (order: string): Parameter[] => [
  query('limit', 'At most 100', z.int().default(20)),
  query('order', order, z.enum(['asc', 'desc']).default('desc')),
  query('after', 'The id of the item before the page'),
];

const requestHeaders: Parameter[] = [
  {
    name: 'X-Request-ID',
    in: 'header',
    description: 'Comes back on the answer, and goes to the provider. Made up when absent.',
    schema: z.string().max(200),
  },
  {
    name: 'Idempotency-Key',
    in: 'header',
    description: 'For 24 hours, the same key with the same body gives the same answer again, without another call',
    schema: z.string().max(255),
  },
];

const anthropicHeaders: Parameter[] = ['anthropic-version', 'anthropic-beta'].map((name) => ({
  name,
  in: 'header',
  description: "Passed on to a provider with Anthropic's own API",
  schema: z.string(),
}));

const liveParameters: Parameter[] = [
  query(
    'cursor',
    'The id of the last event seen, exclusive; `0` is the beginning. Absent: from now on, after the requests in flight',
  ),
  { name: 'Last-Event-ID', in: 'header', description: 'As `cursor`, and stronger than it', schema: z.string() },
  query(
    'types',
    'Comma-separated: `audit`, `usage`, any preview type, any event type, or a prefix of one such as `request.`',
  ),
  query('request_id', 'One request, by its own id or that of its exchange'),
  query('path', 'Prefix of the request path'),
  query('stream', 'Prefix of the stream name'),
  query('user_path', 'A user path, with all below it'),
  query('view', 'Previews of requests, or the events as they were recorded', z.enum(['previews', 'events'])),
  query('raw', '`true` is `view=events`', z.boolean()),
];

export const operations: readonly Operation[] = [
  {
    operationId: 'createChatCompletion',
    methods: ['POST'],
    path: '/v1/chat/completions',
    summary: 'Create a chat completion',
    tag: 'models',
    parameters: requestHeaders,
    request: { required: true, schema: chatRequestSchema },
    success: {
      description: 'The completion, or a stream of its chunks',
      content: jsonOrStream(answers.chatCompletion),
    },
    errors: modelErrors,
  },
  {
    operationId: 'createEmbeddings',
    methods: ['POST'],
    path: '/v1/embeddings',
    summary: 'Create embeddings',
    tag: 'models',
    parameters: requestHeaders,
    request: { required: true, schema: embeddingsRequestSchema },
    success: { description: 'The embeddings', content: json(answers.embeddingList) },
    errors: modelErrors,
  },
  {
    operationId: 'createMessage',
    methods: ['POST'],
    path: '/v1/messages',
    summary: "Create a message, as Anthropic's API does",
    tag: 'models',
    parameters: [...requestHeaders, ...anthropicHeaders],
    request: { required: true, schema: messagesRequestSchema },
    success: { description: 'The message, or a stream of its events', content: jsonOrStream(answers.message) },
    errors: modelErrors,
    errorSchema: 'MessagesError',
  },
  {
    operationId: 'countMessageTokens',
    methods: ['POST'],
    path: '/v1/messages/count_tokens',
    summary: 'Count the tokens of a message request',
    description: 'By the provider where it can count, else an estimate of the gateway.',
    tag: 'models',
    parameters: [...requestHeaders, ...anthropicHeaders],
    request: { required: true, schema: countTokensRequestSchema },
    success: { description: 'The count', content: json(answers.tokenCount) },
    errors: modelErrors,
    errorSchema: 'MessagesError',
  },
  {
    operationId: 'createResponse',
    methods: ['POST'],
    path: '/v1/responses',
    summary: 'Create a response',
    tag: 'responses',
    parameters: requestHeaders,
    request: { required: true, schema: createRequestSchema },
    success: { description: 'The response, or a stream of its events', content: jsonOrStream(answers.responseObject) },
    errors: modelErrors,
  },
  {
    operationId: 'getResponse',
    methods: ['GET'],
    path: '/v1/responses/{id}',
    summary: 'Fetch a response',
    tag: 'responses',
    pathParameters: responseId,
    parameters: [
      provider,
      query('stream', 'Gives the stream it was made as, and goes on with it while it is made', z.boolean()),
      query('starting_after', 'With `stream`: the sequence number of the last event seen', z.int()),
    ],
    success: {
      description: 'The response as it was stored, or its stream',
      content: jsonOrStream(answers.responseObject),
    },
    errors: lifecycleErrors,
  },
  {
    operationId: 'cancelResponse',
    methods: ['POST'],
    path: '/v1/responses/{id}/cancel',
    summary: 'Cancel a background response',
    tag: 'responses',
    pathParameters: responseId,
    parameters: [provider],
    success: { description: 'The response as it is now', content: json(answers.responseObject) },
    errors: lifecycleErrors,
  },
  {
    operationId: 'deleteResponse',
    methods: ['DELETE'],
    path: '/v1/responses/{id}',
    summary: 'Delete a response',
    tag: 'responses',
    pathParameters: responseId,
    parameters: [provider],
    success: { description: 'It is deleted', content: json(answers.responseDeletion) },
    errors: lifecycleErrors,
  },
  {
    operationId: 'listInputItems',
    methods: ['GET'],
    path: '/v1/responses/{id}/input_items',
    summary: 'List the input of a response',
    tag: 'responses',
    pathParameters: responseId,
    parameters: [provider, ...pageParameters('By place in the input')],
    success: { description: 'One page of items', content: json(answers.inputItemList) },
    errors: lifecycleErrors,
  },
  {
    operationId: 'createConversation',
    methods: ['POST'],
    path: '/v1/conversations',
    summary: 'Create a conversation',
    tag: 'conversations',
    request: { required: false, schema: createConversationSchema },
    success: { description: 'The conversation', content: json(answers.conversation) },
    errors: [400, 401, 404, 413, 503],
  },
  {
    operationId: 'getConversation',
    methods: ['GET'],
    path: '/v1/conversations/{id}',
    summary: 'Fetch a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    success: { description: 'The conversation', content: json(answers.conversation) },
    errors: [401, 404],
  },
  {
    operationId: 'updateConversation',
    methods: ['POST'],
    path: '/v1/conversations/{id}',
    summary: 'Add to the metadata of a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    request: { required: true, schema: updateConversationSchema },
    success: { description: 'The conversation as it is now', content: json(answers.conversation) },
    errors: conversationErrors,
  },
  {
    operationId: 'deleteConversation',
    methods: ['DELETE'],
    path: '/v1/conversations/{id}',
    summary: 'Delete a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    success: { description: 'It is deleted', content: json(answers.conversationDeletion) },
    errors: [401, 404, 409, 503],
  },
  {
    operationId: 'addConversationItems',
    methods: ['POST'],
    path: '/v1/conversations/{id}/items',
    summary: 'Put items at the end of a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    request: { required: true, schema: addItemsSchema },
    success: { description: 'The items that were added', content: json(answers.inputItemList) },
    errors: conversationErrors,
  },
  {
    operationId: 'listConversationItems',
    methods: ['GET'],
    path: '/v1/conversations/{id}/items',
    summary: 'List the items of a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    parameters: pageParameters('By place in the conversation'),
    success: { description: 'One page of items', content: json(answers.inputItemList) },
    errors: [400, 401, 404],
  },
  {
    operationId: 'getConversationItem',
    methods: ['GET'],
    path: '/v1/conversations/{id}/items/{item}',
    summary: 'Fetch an item of a conversation',
    tag: 'conversations',
    pathParameters: conversationItem,
    success: { description: 'The item', content: json(answers.item) },
    errors: [401, 404],
  },
  {
    operationId: 'deleteConversationItem',
    methods: ['DELETE'],
    path: '/v1/conversations/{id}/items/{item}',
    summary: 'Delete an item of a conversation',
    tag: 'conversations',
    pathParameters: conversationItem,
    success: { description: 'The conversation', content: json(answers.conversation) },
    errors: [401, 404, 409, 503],
  },
  ...forwardedOperations,
  {
    operationId: 'listModels',
    methods: ['GET'],
    path: '/v1/models',
    summary: 'List models',
    description: "With an `anthropic-version` header in Anthropic's shape, a page at a time.",
    tag: 'models',
    success: { description: 'The models of all providers', content: json(answers.modelList) },
    errors: [401],
  },
  {
    operationId: 'getModel',
    methods: ['GET'],
    path: '/v1/models/{selector}',
    summary: 'Fetch a model',
    tag: 'models',
    pathParameters: { selector: '`<provider>/<model>`; slashes may stand as they are' },
    success: { description: 'The model', content: json(answers.model) },
    errors: [401, 404],
  },
  {
    operationId: 'passthrough',
    methods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'],
    path: '/p/{provider}/{path}',
    summary: "Call a provider's own API",
    description:
      'OpenAI-shaped paths go to the `/v1` base of a local server, all others to its root. Errors come in the envelope.',
    tag: 'passthrough',
    pathParameters: { provider: 'A provider name or type', path: 'What follows; slashes stand as they are' },
    request: { required: false, schema: 'any' },
    success: { description: "The provider's answer, with its own status", content: { '*/*': {} } },
    errors: modelErrors,
  },
  {
    operationId: 'followLiveLogs',
    methods: ['GET'],
    path: '/admin/live/logs',
    summary: 'Follow what happens',
    description:
      'Server-sent events: `audit.started`, `audit.updated`, `audit.stream`, then `audit.completed` or `audit.failed`; ' +
      '`usage.completed`; `heartbeat`; `reset`. The id of an event is a place in the log: whoever resumes from it misses nothing.',
    tag: 'admin',
    parameters: liveParameters,
    success: { description: 'An endless stream', content: { 'text/event-stream': text } },
    errors: [400, 401, 429, 503],
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
    description: 'Served elsewhere, or not at all, when so configured.',
    tag: 'operations',
    success: { description: 'In the text format of Prometheus', content: { 'text/plain': text } },
    errors: [],
    open: true,
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
