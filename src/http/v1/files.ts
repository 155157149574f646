/** `/v1/files` and `/v1/batches`: objects stored at providers, with the providers' own ids. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import { batchResults } from '../../commands/files/batch-results.ts';
import type { Providers } from '../../commands/files/holders.ts';
import { listObjects } from '../../commands/files/list-objects.ts';
import {
  batchDialect,
  batchRequestSchema,
  contentDialect,
  uploadDialect,
} from '../../commands/files/object-dialects.ts';
import {
  cancelBatch,
  deleteFile,
  type ObjectDependencies,
  type ObjectRequest,
  retrieveObject,
} from '../../commands/files/stored-objects.ts';
import type { Caller, Client, ModelRequest } from '../../commands/model-request/model-request.ts';
import { batches, files, type ObjectKind } from '../../commands/provider-objects/tracked.ts';
import { streamName } from '../../events/event.ts';
import { queryOfParameters, textParameter } from '../api/parameters.ts';
import { anyKey, exchangeRoute, jsonAnswer, mediaAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import { openAiPageIn, sendRows } from '../paging.ts';
import { type Query, single } from '../request-head.ts';
import { bodyLimitOf, callerOf, eventContextOf, requesterOf } from '../server.ts';
import { openAiPageParameters, providerErrors, providerParameter } from './declare.ts';
import { acceptUnparsedForms, formOf } from './model-routes.ts';

export interface QueryRoute {
  Querystring: Query;
}
export interface ById extends QueryRoute {
  Params: { id: string };
}

export interface FilesOptions extends Omit<ObjectDependencies, 'providers'> {
  /** The providers that the caller may use. */
  providersOf(caller: Caller): Providers;
  readonly exchanges: OpenExchanges;
  readonly audit: Pick<ReadAudit, 'stored' | 'list'>;
  readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
}

const tag = 'files';
const ofProvider = queryOfParameters({ provider: providerParameter });
const byId = (id: string) =>
  ({ tag, params: pathParameters({ id }), querystring: ofProvider, errors: [404, 501, 502] }) as const;
const byFile = byId('Id of the file');
const byBatch = byId('Id of the batch');
const object = (description: string) => ({ 200: jsonAnswer(description, { type: 'object' }) });
const fileObject = object("The provider's file object, with `provider`");
const batchObject = object("The provider's batch object, with `provider`");

const batchResultList = z.object({
  object: z.literal('list'),
  batch_id: z.string(),
  data: z.array(
    z.object({
      index: z.int().nullable().describe('Place in the input; null when the provider no longer has the input'),
      custom_id: z.string().nullable(),
      url: z.string().nullable(),
      status_code: z.int().nullable(),
      model: z.string().nullable(),
      provider: z.string(),
      response: z.unknown(),
      error: z.object({ type: z.string(), message: z.string() }).nullable(),
    }),
  ),
});

const declared = {
  upload: exchangeRoute('uploadFile', 'Upload a file to a provider', {
    description: 'The form field `provider`, before the file, or the parameter names it; optional with one provider.',
    tag,
    querystring: ofProvider,
    body: { type: 'object', properties: { purpose: { type: 'string' }, provider: { type: 'string' }, file: {} } },
    bodyType: 'multipart/form-data',
    response: fileObject,
    errors: providerErrors,
  }),
  content: anyKey('getFileContent', 'Get the content of a file', {
    ...byFile,
    response: { 200: mediaAnswer('The bytes of the file', '*/*') },
    errors: [404, 501, 502, 504],
  }),
  deleteFile: anyKey('deleteFile', 'Delete a file at its provider', {
    ...byFile,
    response: object('The file is deleted'),
  }),
  createBatch: exchangeRoute('createBatch', 'Create a batch', {
    description:
      'With `input_file_id`, at the provider that has the file, unless `provider` or `model` names another; the models ' +
      'inside the file are names of the provider. With `requests`, at the one provider that serves all their models; the ' +
      'gateway uploads them as a file there.',
    tag,
    querystring: ofProvider,
    body: batchRequestSchema,
    example: { input_file_id: 'file-abc', endpoint: '/v1/chat/completions', completion_window: '24h' },
    response: batchObject,
    errors: providerErrors,
  }),
  cancelBatch: anyKey('cancelBatch', 'Cancel a batch', { ...byBatch, response: batchObject }),
  results: anyKey('getBatchResults', 'Get the result of each request of a finished batch', {
    ...byBatch,
    description: 'Read from the files of the provider. 409 `batch_not_ready` while the batch is not finished.',
    response: { 200: jsonAnswer('The results of the output file, then of the error file', batchResultList) },
    errors: [404, 409, 501, 502],
  }),
  list: {
    file: anyKey('listFiles', 'List the files of all providers', {
      tag,
      querystring: queryOfParameters({
        provider: providerParameter,
        ...openAiPageParameters,
        purpose: textParameter('Only files with this purpose'),
      }),
      response: object('A page of files'),
      errors: [404, 501, 502],
    }),
    batch: anyKey('listBatches', 'List the batches of all providers', {
      tag,
      querystring: queryOfParameters({ provider: providerParameter, ...openAiPageParameters }),
      response: object('A page of batches'),
      errors: [404, 501, 502],
    }),
  },
  get: {
    file: anyKey('getFile', 'Get a file object', { ...byFile, response: fileObject }),
    batch: anyKey('getBatch', 'Get a batch', { ...byBatch, response: batchObject }),
  },
};

export function registerFiles(app: Routes, options: FilesOptions): void {
  const run = (request: FastifyRequest, reply: FastifyReply, dialect: ExchangeDialect): Promise<void> =>
    options.exchanges.run(request, reply, (modelRequest, client) =>
      options.run(dialect, { ...modelRequest, ...formOf(request) }, client),
    );
  const of = (request: FastifyRequest<QueryRoute>): ObjectRequest => objectRequest(request, options);
  /** Called before the object is sent, after the check that the caller may read it. */
  const noteRead = (what: 'file' | 'file_content' | 'batch', request: FastifyRequest<ById>): Promise<void> => {
    const kind = what === 'batch' ? 'batch' : 'file';
    return options.audit.stored(what, streamName(kind, request.params.id), callerOf(request), eventContextOf(request));
  };
  const noteList = ({ name }: ObjectKind, request: FastifyRequest<QueryRoute>) =>
    options.audit.list(`${name}_list`, filterOf(request), callerOf(request), eventContextOf(request));

  app.register(async (scope) => {
    acceptUnparsedForms(scope);
    scope.post<QueryRoute>('/v1/files', declared.upload, (request, reply) =>
      run(request, reply, uploadDialect(of(request), bodyLimitOf(request))),
    );
  });
  app.get<ById>('/v1/files/:id/content', declared.content, (request, reply) => {
    const note = () => noteRead('file_content', request);
    return run(request, reply, contentDialect(request.params.id, of(request), note));
  });
  app.delete<ById>('/v1/files/:id', declared.deleteFile, (request) => deleteFile(request.params.id, of(request)));

  app.post<QueryRoute>('/v1/batches', declared.createBatch, (request, reply) =>
    run(request, reply, batchDialect(of(request))),
  );
  app.post<ById>('/v1/batches/:id/cancel', declared.cancelBatch, async (request) => {
    const batch = await cancelBatch(request.params.id, of(request));
    await noteRead('batch', request);
    return batch;
  });

  app.get<ById>('/v1/batches/:id/results', declared.results, async (request, reply) => {
    const { id } = request.params;
    const withSignal = { ...of(request), signal: untilAnswered(reply) };
    const results = await batchResults(id, withSignal, async (fileIds) => {
      const by = [callerOf(request), eventContextOf(request)] as const;
      await options.audit.stored('batch', streamName('batch', id), ...by);
      for (const file of fileIds) await options.audit.stored('file_content', streamName('file', file), ...by);
    });
    return sendRows(reply, results, [`{"object":"list","batch_id":${JSON.stringify(id)},"data":`, '}']);
  });

  for (const kind of [files, batches]) {
    app.get<QueryRoute>(kind.endpoint, declared.list[kind.name], async (request) => {
      const listed = await listObjects(kind, listRequest(kind, request, options));
      await noteList(kind, request);
      return listed;
    });
    app.get<ById>(`${kind.endpoint}/:id`, declared.get[kind.name], async (request) => {
      const object = await retrieveObject(kind, request.params.id, of(request));
      await noteRead(kind.name, request);
      return object;
    });
  }
}

/** Filters of the list, as the client sent them. */
function filterOf({ query }: FastifyRequest<QueryRoute>): Record<string, string> {
  const filter: Record<string, string> = {};
  for (const name of ['provider', 'purpose', 'after', 'limit', 'order']) {
    const value = single(query[name]);
    if (value !== undefined) filter[name] = value;
  }
  return filter;
}

/** Time limit for reading the files of a large batch. */
const READING_MS = 10 * 60_000;

/** Aborted when the client has disconnected or has its answer, and after the time limit. */
export function untilAnswered(reply: FastifyReply): AbortSignal {
  const over = new AbortController();
  reply.raw.once('close', () => over.abort());
  return AbortSignal.any([over.signal, AbortSignal.timeout(READING_MS)]);
}

export function objectRequest(request: FastifyRequest<QueryRoute>, options: FilesOptions): ObjectRequest {
  const { log, tracked, deferred, forecast, providersOf } = options;
  return {
    ...{ log, tracked, deferred, forecast, providers: providersOf(callerOf(request)) },
    ...requesterOf(request),
    requestId: request.id,
    provider: single(request.query['provider']),
    signal: AbortSignal.timeout(60_000),
  };
}

/** @throws Refusal */
function listRequest({ name }: ObjectKind, request: FastifyRequest<QueryRoute>, options: FilesOptions) {
  const { query } = request;
  const { limit, order, after } = openAiPageIn(query);
  const purpose = single(query['purpose']);
  const filters: Readonly<Record<string, string>> = name === 'file' && purpose !== undefined ? { purpose } : {};
  return { ...objectRequest(request, options), limit, after, order, filters };
}
