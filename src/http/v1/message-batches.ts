/** `/v1/messages/batches`: Anthropic's batches, at providers with Anthropic's API or OpenAI's. */
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { listMessageBatches } from '../../commands/files/list-objects.ts';
import { messageBatchDialect, messageBatchRequestSchema } from '../../commands/files/message-batch-dialect.ts';
import {
  cancelMessageBatch,
  deleteMessageBatch,
  type MessageResult,
  messageBatchResults,
  retrieveMessageBatch,
} from '../../commands/files/message-batches.ts';
import { refusals } from '../../commands/refusal.ts';
import { streamName } from '../../events/event.ts';
import { queryOfParameters, textParameter } from '../api/parameters.ts';
import { anyKey, exchangeRoute, jsonAnswer, mediaAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { limitIn } from '../paging.ts';
import { single } from '../request-head.ts';
import { callerOf, eventContextOf } from '../server.ts';
import { providerErrors, providerParameter } from './declare.ts';
import { type ById, type FilesOptions, objectRequest, type QueryRoute, untilAnswered } from './files.ts';

const PATH = '/v1/messages/batches';

const time = z.iso.datetime();
const messageBatch = z.looseObject({
  id: z.string(),
  type: z.literal('message_batch'),
  processing_status: z.enum(['in_progress', 'canceling', 'ended']),
  request_counts: z.object({
    processing: z.int(),
    succeeded: z.int(),
    errored: z.int(),
    canceled: z.int(),
    expired: z.int(),
  }),
  ended_at: time.nullable(),
  created_at: time,
  expires_at: time,
  archived_at: time.nullable(),
  cancel_initiated_at: time.nullable(),
  results_url: z.string().nullable().describe('URL of the results at the gateway'),
});
const messageBatchPage = z.object({
  data: z.array(messageBatch),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
});
const common = {
  tag: 'files',
  querystring: queryOfParameters({ provider: providerParameter }),
  response: { 200: jsonAnswer("The batch in Anthropic's format", messageBatch) },
  errors: [404, 501, 502],
} as const;
const byId = { ...common, params: pathParameters({ id: 'Id of the batch' }) } as const;

const declared = {
  create: exchangeRoute('createMessageBatch', 'Create a batch of messages', {
    ...common,
    description:
      "At the one provider that serves all its models and has batches: unchanged with Anthropic's API, as chat " +
      "completions with OpenAI's.",
    body: messageBatchRequestSchema,
    example: {
      requests: [
        {
          custom_id: 'a',
          params: {
            model: 'anthropic/claude-sonnet-4-5',
            max_tokens: 100,
            messages: [{ role: 'user', content: 'Hello' }],
          },
        },
      ],
    },
    errors: providerErrors,
  }),
  list: anyKey('listMessageBatches', 'List the batches of messages of all providers', {
    ...common,
    querystring: queryOfParameters({
      limit: textParameter('Batches of the page', { type: 'integer', minimum: 1, maximum: 1000, default: 20 }),
      after_id: textParameter('Id of the batch before the page'),
      provider: providerParameter,
    }),
    response: { 200: jsonAnswer('Newest first', messageBatchPage) },
  }),
  get: anyKey('getMessageBatch', 'Get a batch of messages', byId),
  delete: anyKey('deleteMessageBatch', 'Delete a finished batch of messages', {
    ...byId,
    response: {
      200: jsonAnswer('The batch is deleted', z.object({ id: z.string(), type: z.literal('message_batch_deleted') })),
    },
  }),
  cancel: anyKey('cancelMessageBatch', 'Cancel a batch of messages', byId),
  results: anyKey('getMessageBatchResults', 'Get the result of each request of a finished batch of messages', {
    ...byId,
    response: {
      200: mediaAnswer('One JSON object in each line; 409 while the batch is not finished', 'application/x-jsonl', {
        type: 'string',
      }),
    },
    errors: [404, 409, 501, 502],
  }),
};

export function registerMessageBatches(app: Routes, options: FilesOptions): void {
  const of = (request: FastifyRequest<QueryRoute>) => objectRequest(request, options);
  const noteRead = (request: FastifyRequest<ById>): Promise<void> =>
    options.audit.stored('batch', streamName('batch', request.params.id), callerOf(request), eventContextOf(request));

  app.post<QueryRoute>(PATH, declared.create, (request, reply) => {
    const dialect = messageBatchDialect(of(request));
    return options.exchanges.run(request, reply, (modelRequest, client) => options.run(dialect, modelRequest, client));
  });
  app.get<QueryRoute>(PATH, declared.list, async (request) => {
    const listed = await listMessageBatches(listRequest(request, options));
    await options.audit.list('batch_list', filterOf(request), callerOf(request), eventContextOf(request));
    return listed;
  });
  app.get<ById>(`${PATH}/:id`, declared.get, async (request) => {
    const batch = await retrieveMessageBatch(request.params.id, of(request));
    await noteRead(request);
    return batch;
  });
  app.delete<ById>(`${PATH}/:id`, declared.delete, (request) => deleteMessageBatch(request.params.id, of(request)));
  app.post<ById>(`${PATH}/:id/cancel`, declared.cancel, async (request) => {
    const batch = await cancelMessageBatch(request.params.id, of(request));
    await noteRead(request);
    return batch;
  });
  app.get<ById>(`${PATH}/:id/results`, declared.results, async (request, reply) => {
    const withSignal = { ...of(request), signal: untilAnswered(reply) };
    const results = await messageBatchResults(request.params.id, withSignal, () => noteRead(request));
    return reply.type('application/x-jsonl').send(Readable.from(linesOf(results), { objectMode: false }));
  });
}

async function* linesOf(results: AsyncIterable<MessageResult>): AsyncGenerator<string> {
  for await (const result of results) yield `${JSON.stringify(result)}\n`;
}

/** @throws Refusal */
function listRequest(request: FastifyRequest<QueryRoute>, options: FilesOptions) {
  const { query } = request;
  const limit = limitIn(query, { usual: 20, most: 1000 });
  if (single(query['before_id']) !== undefined) {
    throw refusals.invalidRequest("'before_id' is not supported: the list is read from the newest on.", 'before_id');
  }
  return { ...objectRequest(request, options), limit, after: single(query['after_id']) };
}

function filterOf({ query }: FastifyRequest<QueryRoute>): Record<string, string> {
  const filter: Record<string, string> = {};
  for (const name of ['provider', 'after_id', 'limit']) {
    const value = single(query[name]);
    if (value !== undefined) filter[name] = value;
  }
  return filter;
}
