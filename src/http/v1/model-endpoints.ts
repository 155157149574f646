/** Model endpoints that are forwarded: each passes its body to the exchange, and a form as a stream. */
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import {
  createForwardDialect,
  type FormOptions,
  type ForwardOptions,
  formDialect,
  forwardRequestSchema,
} from '../../commands/exchange/dialects/forward/forward-dialect.ts';
import { type ForwardOperation, forwardOperations } from '../../commands/model-request/forward-operations.ts';
import type { Client, ModelRequest } from '../../commands/model-request/model-request.ts';
import { exchangeRoute } from '../api/declare.ts';
import { mediaAnswer, type Routes } from '../api/route-schema.ts';
import { decodedStream } from '../content-encoding.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import { bodyLimitOf } from '../server.ts';
import { idempotencyHeader, providerErrors } from './declare.ts';

export interface ModelEndpointOptions {
  readonly exchanges: OpenExchanges;
  readonly forward: Omit<FormOptions, 'limitBytes'>;
  /** For the endpoints below `/v1/responses`. */
  readonly responses: Pick<ForwardOptions, 'changes'>;
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

const form = { type: 'object', description: 'The form of the provider, with its `model`' };

function declared({ endpoint, title, body }: ForwardOperation) {
  const [operationId, example] = endpoints[endpoint] ?? [endpoint];
  return exchangeRoute(operationId, title, {
    description: "Request and answer are forwarded unchanged, in the provider's format.",
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
      const json = createForwardDialect(operation, { ...options.forward, ...changes });
      scope.post(endpoint, declared(operation), (request, reply) => {
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
