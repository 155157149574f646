/** OpenAPI operations of Responses. */
import { z } from 'zod';
import { createRequestSchema } from '../commands/responses/create-request.ts';
import * as answers from './answer-schemas.ts';
import {
  json,
  jsonOrStream,
  modelErrors,
  type Operation,
  pageParameters,
  query,
  requestHeaders,
} from './openapi-operation.ts';

const lifecycleErrors = [400, 401, 404, 501, 502, 503];
const provider = query('provider', 'The provider of a response that is not stored here: its name or type');
const responseId = { id: 'The id of the response' };

export const responseOperations: readonly Operation[] = [
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
      query('stream', 'Returns the stream of the response, up to its end if it is still being generated', z.boolean()),
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
];
