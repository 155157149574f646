/** `/v1/files` and `/v1/batches`: objects that providers keep, under the providers' own ids. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Caller, Client, ModelRequest } from '../../commands/exchange/client.ts';
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import type { Providers } from '../../commands/files/holders.ts';
import { listObjects } from '../../commands/files/list-objects.ts';
import {
  batchDialect,
  type CreateOptions,
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
import { batches, files, type ObjectKind } from '../../commands/files/tracked.ts';
import { refusals } from '../../commands/refusal.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import { type Query, single } from '../query.ts';
import { callerOf, eventContextOf } from '../server.ts';
import { formOf, takeFormsAsTheyCome } from './model-endpoints.ts';

interface Asked {
  Querystring: Query;
}
interface ById extends Asked {
  Params: { id: string };
}

export interface FilesOptions extends Omit<ObjectDependencies, 'providers'> {
  /** Those that the caller may use. */
  providersOf(caller: Caller): Providers;
  readonly exchanges: OpenExchanges;
  readonly capture: CreateOptions['capture'];
  readonly limitBytes: number;
  readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
}

export function registerFiles(app: FastifyInstance, options: FilesOptions): void {
  const run = (request: FastifyRequest, reply: FastifyReply, dialect: ExchangeDialect): Promise<void> =>
    options.exchanges.run(request, reply, (asked, client) =>
      options.run(dialect, { ...asked, ...formOf(request) }, client),
    );
  const deps = (request: FastifyRequest): ObjectDependencies => ({
    log: options.log,
    tracked: options.tracked,
    providers: options.providersOf(callerOf(request)),
  });
  const create = ({ query }: FastifyRequest<Asked>): CreateOptions => ({
    provider: single(query['provider']),
    capture: options.capture,
    limitBytes: options.limitBytes,
  });

  app.register(async (scope) => {
    takeFormsAsTheyCome(scope);
    scope.post<Asked>('/v1/files', (request, reply) =>
      run(request, reply, uploadDialect(create(request), deps(request))),
    );
  });
  app.get<ById>('/v1/files/:id/content', (request, reply) =>
    run(request, reply, contentDialect(request.params.id, objectRequest(request), deps(request))),
  );
  app.delete<ById>('/v1/files/:id', (request) => deleteFile(request.params.id, objectRequest(request), deps(request)));

  app.post<Asked>('/v1/batches', (request, reply) => {
    return run(request, reply, batchDialect(create(request), callerOf(request).userPath, deps(request)));
  });
  app.post<ById>('/v1/batches/:id/cancel', (request) =>
    cancelBatch(request.params.id, objectRequest(request), deps(request)),
  );

  for (const kind of [files, batches]) {
    app.get<Asked>(kind.endpoint, (request) => listObjects(kind, listRequest(kind, request), deps(request)));
    app.get<ById>(`${kind.endpoint}/:id`, (request) =>
      retrieveObject(kind, request.params.id, objectRequest(request), deps(request)),
    );
  }
}

function objectRequest(request: FastifyRequest<Asked>): ObjectRequest {
  return {
    context: eventContextOf(request),
    requestId: request.id,
    provider: single(request.query['provider']),
    signal: AbortSignal.timeout(60_000),
  };
}

const MAX_LIMIT = 100;

/** @throws Refusal */
function listRequest({ name }: ObjectKind, request: FastifyRequest<Asked>) {
  const { query } = request;
  const limit = single(query['limit']) ?? '20';
  const order = single(query['order']) ?? 'desc';
  const purpose = single(query['purpose']);
  if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_LIMIT) {
    throw refusals.invalidRequest(`'limit' must be a whole number from 1 to ${MAX_LIMIT}.`, 'limit');
  }
  if (order !== 'asc' && order !== 'desc') throw refusals.invalidRequest("'order' must be asc or desc.", 'order');
  const filters: Readonly<Record<string, string>> = name === 'file' && purpose !== undefined ? { purpose } : {};
  return {
    ...objectRequest(request),
    limit: Number(limit),
    after: single(query['after']),
    order,
    filters,
  } as const;
}
