/** The model routes: each passes its body's bytes to the exchange in its own dialect. */
import { chatRequestSchema } from '../../commands/chat/chat-request.ts';
import { embeddingsRequestSchema } from '../../commands/embeddings/embeddings-request.ts';
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import { messagesRequestSchema } from '../../commands/messages/messages-request.ts';
import type { Client, ModelRequest } from '../../commands/model-request/model-request.ts';
import { createRequestSchema } from '../../commands/responses/create-request.ts';
import * as answers from '../answer-schemas.ts';
import { exchangeRoute } from '../api/declare.ts';
import { jsonAnswer, jsonOrEventsAnswer, type Routes } from '../api/route-schema.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
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
