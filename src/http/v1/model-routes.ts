/** Routes of the model endpoints: of the dialects, and of those that are forwarded. */

import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { chatRequestSchema } from '../../commands/chat/chat-request.ts';
import { embeddingsRequestSchema } from '../../commands/embeddings/embeddings-request.ts';
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import {
  createForwardDialect,
  type FormOptions,
  type ForwardOptions,
  formDialect,
  forwardRequestSchema,
} from '../../commands/exchange/dialects/forward/forward-dialect.ts';
import { countTokensDialect, estimatedCount } from '../../commands/exchange/dialects/messages/messages-dialect.ts';
import {
  type CompactDialectOptions,
  compactDialect,
} from '../../commands/exchange/dialects/responses/compact-dialect.ts';
import { countTokensRequestSchema, messagesRequestSchema } from '../../commands/messages/messages-request.ts';
import { type ForwardOperation, forwardOperations } from '../../commands/model-request/forward-operations.ts';
import type { Caller, Client, ModelRequest } from '../../commands/model-request/model-request.ts';
import type { Reach, Target } from '../../commands/model-request/routing-types.ts';
import { createRequestSchema } from '../../commands/responses/create-request.ts';
import * as answers from '../answer-schemas.ts';
import { exchangeRoute, jsonAnswer, jsonOrEventsAnswer, mediaAnswer, type Routes } from '../api/route-schema.ts';
import { decodedStream } from '../bodies.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import { bodyLimitOf, bodyOf, callerOf } from '../server.ts';
import { anthropicRequestHeaders, cacheRequestHeaders, idempotencyHeader, providerErrors } from './declare.ts';

const requestHeaders = { ...idempotencyHeader, ...cacheRequestHeaders };
const common = { tag: 'models', requestHeaders, errors: providerErrors } as const;
const user = [{ role: 'user', content: 'Hello' }];

/** The declarations by the endpoint of the dialect. */
const declared: Readonly<Record<string, ReturnType<typeof exchangeRoute>>> = {
  '/v1/chat/completions': exchangeRoute('createChatCompletion', 'Create a chat completion', {
    ...common,
    body: chatRequestSchema,
    example: { model: 'openai/gpt-4o-mini', messages: user },
    response: { 200: jsonOrEventsAnswer('The completion, or a stream of its chunks', answers.chatCompletion) },
  }),
  '/v1/responses': exchangeRoute('createResponse', 'Create a response', {
    ...common,
    tag: 'responses',
    body: createRequestSchema,
    example: { model: 'openai/gpt-4o-mini', input: 'Hello' },
    response: { 200: jsonOrEventsAnswer('The response, or a stream of its events', answers.responseObject) },
  }),
  '/v1/embeddings': exchangeRoute('createEmbeddings', 'Create embeddings', {
    ...common,
    body: embeddingsRequestSchema,
    example: { model: 'openai/text-embedding-3-small', input: 'Hello' },
    response: { 200: jsonAnswer('The embeddings', answers.embeddingList) },
  }),
  '/v1/messages': exchangeRoute('createMessage', "Create a message with Anthropic's API", {
    ...common,
    requestHeaders: { ...requestHeaders, ...anthropicRequestHeaders },
    body: messagesRequestSchema,
    example: { model: 'anthropic/claude-sonnet-4-5', max_tokens: 100, messages: user },
    response: { 200: jsonOrEventsAnswer('The message, or a stream of its events', answers.message) },
  }),
};

/** @throws Error for a dialect whose endpoint is not declared */
export function registerModelRoutes(
  app: Routes,
  options: {
    readonly dialects: readonly ExchangeDialect[];
    readonly exchanges: OpenExchanges;
    readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
  },
): void {
  for (const dialect of options.dialects) {
    const route = declared[dialect.endpoint];
    if (route === undefined) throw new Error(`${dialect.endpoint} is not declared`);
    app.post(dialect.endpoint, route, (request, reply) =>
      options.exchanges.run(request, reply, (modelRequest, client) => options.run(dialect, modelRequest, client)),
    );
  }
}

// Model endpoints that are forwarded: each passes its body to the exchange, and a form as a stream.

interface ModelEndpointOptions {
  readonly exchanges: OpenExchanges;
  readonly forward: Omit<FormOptions, 'limitBytes'>;
  /** For the endpoints below `/v1/responses`. */
  readonly responses: Pick<ForwardOptions, 'changes'>;
  readonly compact: CompactDialectOptions;
  readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
}

/** Operation id and example by endpoint. */
const endpoints: Readonly<Record<string, readonly [operationId: string, example?: object]>> = {
  '/v1/completions': ['createCompletion', { model: 'openai/gpt-3.5-turbo-instruct', prompt: 'Once upon a time' }],
  '/v1/audio/speech': ['createSpeech', { model: 'openai/tts-1', voice: 'alloy', input: 'Hello' }],
  '/v1/audio/transcriptions': ['createTranscription'],
  '/v1/audio/translations': ['createTranslation'],
  '/v1/images/generations': ['createImage', { model: 'openai/gpt-image-1', prompt: 'A lighthouse' }],
  '/v1/images/edits': [
    'editImage',
    { model: 'openai/gpt-image-1', prompt: 'At night', images: [{ file_id: 'file-a' }] },
  ],
  '/v1/responses/input_tokens': ['countInputTokens', { model: 'openai/gpt-4o-mini', input: 'Hello' }],
  '/v1/responses/compact': ['compactResponse', { model: 'openai/gpt-4o-mini', input: 'Hello' }],
};

const forwarded = "Request and answer are forwarded unchanged, in the provider's format.";
const compaction = `${forwarded} Where the provider has no such endpoint, the model of the request writes a summary; see docs/responses.md.`;
const form = { type: 'object', description: 'The form of the provider, with its `model`' };

function routeOf({ endpoint, title, body }: ForwardOperation) {
  const [operationId, example] = endpoints[endpoint] ?? [endpoint];
  return exchangeRoute(operationId, title, {
    description: endpoint === '/v1/responses/compact' ? compaction : forwarded,
    tag: endpoint.startsWith('/v1/responses/') ? 'responses' : 'models',
    requestHeaders: idempotencyHeader,
    ...(body === 'form' ? { body: form, bodyType: 'multipart/form-data' } : { body: forwardRequestSchema, example }),
    response: { 200: mediaAnswer("The provider's answer", '*/*') },
    errors: providerErrors,
  });
}

export function registerModelEndpoints(app: Routes, options: ModelEndpointOptions): void {
  app.register(async (scope) => {
    acceptUnparsedForms(scope);
    for (const operation of forwardOperations) {
      const { endpoint, body } = operation;
      const ofResponses = endpoint.startsWith('/v1/responses/');
      const changes = ofResponses ? options.responses : {};
      const forward = createForwardDialect(operation, { ...options.forward, ...changes });
      const json = endpoint === '/v1/responses/compact' ? compactDialect(forward, options.compact) : forward;
      scope.post(endpoint, routeOf(operation), (request, reply) => {
        const isForm = body === 'form' || (body === 'json or form' && isMultipart(request));
        const dialect = isForm
          ? formDialect(operation, { ...options.forward, limitBytes: bodyLimitOf(request) })
          : json;
        return options.exchanges.run(request, reply, (modelRequest, client) =>
          options.run(dialect, { ...modelRequest, ...formOf(request) }, client),
        );
      });
    }
  });
}

/** Registers a parser that leaves forms unread. */
export function acceptUnparsedForms(scope: Routes): void {
  scope.addContentTypeParser(/^multipart\/form-data\b/i, (request, payload, done) =>
    done(null, decodedStream(request.headers, payload)),
  );
}

/** The form of a request, if it has one. */
export function formOf({ body }: FastifyRequest): Pick<ModelRequest, 'bodyPieces'> {
  return body instanceof Readable ? { bodyPieces: body } : {};
}

function isMultipart(request: FastifyRequest): boolean {
  return request.body instanceof Readable;
}

// `POST /v1/messages/count_tokens`. `POST /v1/messages` is a model route like the others.

export interface CountTokensOptions {
  readonly router: Reach;
  /** Whether guardrails read the requests of the caller to this model. */
  readonly isGuarded: (caller: Caller, target: Target) => boolean;
  /** @throws Refusal 429 */
  readonly admitRequest: (caller: Caller) => void;
  readonly exchanges: OpenExchanges;
  readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
}

const countMessageTokens = exchangeRoute('countMessageTokens', 'Count the tokens of a message request', {
  description: 'Counted by the provider where it can, else estimated by the gateway.',
  tag: 'models',
  requestHeaders: anthropicRequestHeaders,
  body: countTokensRequestSchema,
  example: { model: 'anthropic/claude-sonnet-4-5', messages: [{ role: 'user', content: 'Hello' }] },
  response: { 200: jsonAnswer('The count', answers.tokenCount) },
  errors: providerErrors,
});

export function registerCountTokens(app: Routes, options: CountTokensOptions): void {
  const { router, isGuarded, admitRequest, exchanges, run } = options;
  app.post(countTokensDialect.endpoint, countMessageTokens, async (request, reply) => {
    const caller = callerOf(request);
    const estimate = await estimatedCount(bodyOf(request), caller, router, (target) => isGuarded(caller, target));
    if (estimate !== undefined) {
      admitRequest(caller);
      return { input_tokens: estimate };
    }
    return exchanges.run(request, reply, (modelRequest, client) => run(countTokensDialect, modelRequest, client));
  });
}
