/** `/v1/messages/batches`: Anthropic's batches, at providers with Anthropic's API or OpenAI's. */

import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { listMessageBatches } from '../../commands/files/list-message-batches.ts';
import { messageBatchDialect } from '../../commands/files/message-batch-dialect.ts';
import {
  cancelMessageBatch,
  deleteMessageBatch,
  messageBatchResults,
  retrieveMessageBatch,
} from '../../commands/files/message-batches.ts';
import type { MessageResult } from '../../commands/files/message-results.ts';
import { refusals } from '../../commands/refusal.ts';
import { streamName } from '../../events/event.ts';
import { anyKey } from '../access-class.ts';
import type { Routes } from '../api/route-schema.ts';
import { limitIn } from '../paging.ts';
import { single } from '../query.ts';
import { callerOf, eventContextOf } from '../server.ts';
import {
  type ById,
  dependenciesOf,
  type FilesOptions,
  objectRequest,
  type QueryRoute,
  untilAnswered,
} from './files.ts';

const PATH = '/v1/messages/batches';

export function registerMessageBatches(app: Routes, options: FilesOptions): void {
  const deps = (request: FastifyRequest) => dependenciesOf(request, options);
  const noteRead = (request: FastifyRequest<ById>): Promise<void> =>
    options.audit.stored('batch', streamName('batch', request.params.id), callerOf(request), eventContextOf(request));

  app.post<QueryRoute>(PATH, { config: { access: 'any-key', limits: 'exchange' } }, (request, reply) => {
    const dialect = messageBatchDialect(single(request.query['provider']), deps(request));
    return options.exchanges.run(request, reply, (modelRequest, client) => options.run(dialect, modelRequest, client));
  });
  app.get<QueryRoute>(PATH, anyKey, async (request) => {
    const listed = await listMessageBatches(listRequest(request), deps(request));
    await options.audit.list('batch_list', filterOf(request), callerOf(request), eventContextOf(request));
    return listed;
  });
  app.get<ById>(`${PATH}/:id`, anyKey, async (request) => {
    const batch = await retrieveMessageBatch(request.params.id, objectRequest(request), deps(request));
    await noteRead(request);
    return batch;
  });
  app.delete<ById>(`${PATH}/:id`, anyKey, (request) =>
    deleteMessageBatch(request.params.id, objectRequest(request), deps(request)),
  );
  app.post<ById>(`${PATH}/:id/cancel`, anyKey, async (request) => {
    const batch = await cancelMessageBatch(request.params.id, objectRequest(request), deps(request));
    await noteRead(request);
    return batch;
  });
  app.get<ById>(`${PATH}/:id/results`, anyKey, async (request, reply) => {
    const withSignal = { ...objectRequest(request), signal: untilAnswered(reply) };
    const results = await messageBatchResults(request.params.id, withSignal, deps(request), () => noteRead(request));
    return reply.type('application/x-jsonl').send(Readable.from(linesOf(results), { objectMode: false }));
  });
}

async function* linesOf(results: AsyncIterable<MessageResult>): AsyncGenerator<string> {
  for await (const result of results) yield `${JSON.stringify(result)}\n`;
}

/** @throws Refusal */
function listRequest(request: FastifyRequest<QueryRoute>) {
  const { query } = request;
  const limit = limitIn(query, { usual: 20, most: 1000 });
  if (single(query['before_id']) !== undefined) {
    throw refusals.invalidRequest("'before_id' is not supported: the list is read from the newest on.", 'before_id');
  }
  return { ...objectRequest(request), limit, after: single(query['after_id']) };
}

function filterOf({ query }: FastifyRequest<QueryRoute>): Record<string, string> {
  const filter: Record<string, string> = {};
  for (const name of ['provider', 'after_id', 'limit']) {
    const value = single(query[name]);
    if (value !== undefined) filter[name] = value;
  }
  return filter;
}
