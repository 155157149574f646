/** OpenAPI operations of the endpoints that are forwarded to a provider. */
import { z } from 'zod';
import { forwardRequestSchema } from '../commands/exchange/dialects/forward/forward-dialect.ts';
import { batchRequestSchema } from '../commands/files/object-dialects.ts';
import { type ForwardOperation, forwardOperations } from '../commands/model-request/forward-operations.ts';
import { json, type Operation, type Parameter, pageParameters, query } from './openapi-operation.ts';

const FORM = 'multipart/form-data';
const errors = [400, 401, 404, 413, 429, 501, 502, 503, 504];
const lookupErrors = [400, 401, 404, 501, 502, 503];

/** Names of operations that cannot be derived from the route. */
const names: Readonly<Record<string, string>> = {
  '/v1/completions': 'createCompletion',
  '/v1/audio/speech': 'createSpeech',
  '/v1/audio/transcriptions': 'createTranscription',
  '/v1/audio/translations': 'createTranslation',
  '/v1/images/generations': 'createImage',
  '/v1/images/edits': 'editImage',
  '/v1/responses/input_tokens': 'countInputTokens',
  '/v1/responses/compact': 'compactResponse',
};

const provider = query('provider', 'Who is meant, where the gateway does not remember it: a provider name or type');
const page: readonly Parameter[] = [provider, ...pageParameters('By time of creation')];

const object = (description: string) => ({ description, content: { 'application/json': { type: 'object' } } });
const anything = (description: string) => ({ description, content: { '*/*': {} } });

function forwarded(operation: ForwardOperation): Operation {
  const { endpoint, title, body } = operation;
  return {
    operationId: names[endpoint] ?? endpoint,
    methods: ['POST'],
    path: endpoint,
    summary: title,
    description: 'Passed on to the provider of the model, and its answer to the client, as they are.',
    tag: endpoint.startsWith('/v1/responses/') ? 'responses' : 'models',
    request:
      body === 'json'
        ? { required: true, schema: forwardRequestSchema }
        : { required: true, schema: 'any', ...(body === 'form' ? { type: FORM } : {}) },
    success: anything("The provider's answer"),
    errors,
  };
}

const fileId = { id: 'The id of the file' };
const batchId = { id: 'The id of the batch' };

export const forwardedOperations: readonly Operation[] = [
  ...forwardOperations.map(forwarded),
  {
    operationId: 'uploadFile',
    methods: ['POST'],
    path: '/v1/files',
    summary: 'Upload a file to a provider',
    description: 'A field `provider`, in front of the file, says to which; it may be left out where there is one only.',
    tag: 'files',
    parameters: [provider],
    request: { required: true, schema: 'any', type: FORM },
    success: object("The provider's file object, with `provider`"),
    errors,
  },
  {
    operationId: 'listFiles',
    methods: ['GET'],
    path: '/v1/files',
    summary: 'List the files of all providers',
    tag: 'files',
    parameters: [...page, query('purpose', 'Of these only')],
    success: object('One page'),
    errors: lookupErrors,
  },
  {
    operationId: 'getFile',
    methods: ['GET'],
    path: '/v1/files/{id}',
    summary: 'Fetch what is known of a file',
    tag: 'files',
    pathParameters: fileId,
    parameters: [provider],
    success: object("The provider's file object, with `provider`"),
    errors: lookupErrors,
  },
  {
    operationId: 'deleteFile',
    methods: ['DELETE'],
    path: '/v1/files/{id}',
    summary: 'Delete a file at its provider',
    tag: 'files',
    pathParameters: fileId,
    parameters: [provider],
    success: object('It is deleted'),
    errors: lookupErrors,
  },
  {
    operationId: 'getFileContent',
    methods: ['GET'],
    path: '/v1/files/{id}/content',
    summary: 'Fetch a file',
    tag: 'files',
    pathParameters: fileId,
    parameters: [provider],
    success: anything('Its bytes'),
    errors: [...lookupErrors, 504],
  },
  {
    operationId: 'createBatch',
    methods: ['POST'],
    path: '/v1/batches',
    summary: 'Create a batch',
    description:
      "With `input_file_id` it goes to the provider that has the file, unless `provider` or `model` says otherwise; models named inside the file are the provider's own. With `requests` it goes to the one provider that serves all their models, which are selectors; the gateway puts them into a file there.",
    tag: 'files',
    parameters: [provider],
    request: { required: true, schema: batchRequestSchema },
    success: object("The provider's batch object, with `provider`"),
    errors,
  },
  {
    operationId: 'listBatches',
    methods: ['GET'],
    path: '/v1/batches',
    summary: 'List the batches of all providers',
    tag: 'files',
    parameters: page,
    success: object('One page'),
    errors: lookupErrors,
  },
  {
    operationId: 'getBatch',
    methods: ['GET'],
    path: '/v1/batches/{id}',
    summary: 'Fetch a batch',
    tag: 'files',
    pathParameters: batchId,
    parameters: [provider],
    success: object("The provider's batch object, with `provider`"),
    errors: lookupErrors,
  },
  {
    operationId: 'getBatchResults',
    methods: ['GET'],
    path: '/v1/batches/{id}/results',
    summary: 'Fetch what came of each request of a batch that is over',
    description: 'Read from the files that the provider made. 409 `batch_not_ready` while it is not over.',
    tag: 'files',
    pathParameters: batchId,
    parameters: [provider],
    success: {
      description: 'Those of the output file, then those of the error file',
      content: json(
        z.object({
          object: z.literal('list'),
          batch_id: z.string(),
          data: z.array(
            z.object({
              index: z
                .int()
                .nullable()
                .describe('the place in the input; null when the provider has the input no more'),
              custom_id: z.string().nullable(),
              url: z.string().nullable(),
              status_code: z.int().nullable(),
              model: z.string().nullable(),
              provider: z.string(),
              response: z.unknown(),
              error: z.object({ type: z.string(), message: z.string() }).nullable(),
            }),
          ),
        }),
      ),
    },
    errors: [...lookupErrors, 409],
  },
  {
    operationId: 'cancelBatch',
    methods: ['POST'],
    path: '/v1/batches/{id}/cancel',
    summary: 'Cancel a batch',
    tag: 'files',
    pathParameters: batchId,
    parameters: [provider],
    success: object("The provider's batch object, with `provider`"),
    errors: lookupErrors,
  },
];
