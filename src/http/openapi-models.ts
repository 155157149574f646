/** OpenAPI operations of the model endpoints in each dialect, and of the list of models. */
import { chatRequestSchema } from '../commands/chat/chat-request.ts';
import { embeddingsRequestSchema } from '../commands/embeddings/embeddings-request.ts';
import { countTokensRequestSchema, messagesRequestSchema } from '../commands/messages/messages-request.ts';
import * as answers from './answer-schemas.ts';
import {
  header,
  json,
  jsonOrStream,
  modelErrors,
  type Operation,
  type Parameter,
  requestHeaders,
  requestIdHeader,
} from './openapi-operation.ts';

const anthropicHeaders: readonly Parameter[] = ['anthropic-version', 'anthropic-beta'].map((name) =>
  header(name, "Passed on to a provider with Anthropic's own API"),
);

export const modelOperations: readonly Operation[] = [
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
    parameters: [requestIdHeader, ...anthropicHeaders],
    request: { required: true, schema: countTokensRequestSchema },
    success: { description: 'The count', content: json(answers.tokenCount) },
    errors: modelErrors,
    errorSchema: 'MessagesError',
  },
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
];
