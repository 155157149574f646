/** The routes below `/v1/responses/{id}`. Creation is a model route. */
import type { FastifyRequest } from 'fastify';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import { Heartbeat } from '../../commands/exchange/delivery/pass-stream.ts';
import type { Client } from '../../commands/model-request/model-request.ts';
import { refusals } from '../../commands/refusal.ts';
import type { EventStream } from '../../commands/response-lifecycle/lifecycle.ts';
import * as lifecycle from '../../commands/response-lifecycle/lifecycle.ts';
import { itemPage } from '../../commands/responses/input-items.ts';
import { streamName } from '../../events/event.ts';
import * as answers from '../answer-schemas.ts';
import { booleanParameter, numberParameter, queryOfParameters } from '../api/parameters.ts';
import { anyKey, jsonAnswer, jsonOrEventsAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import { openAiPageIn, startingAfterIn } from '../paging.ts';
import { type Query, single } from '../request-head.ts';
import { callerOf, eventContextOf } from '../server.ts';
import { openAiPageParameters, providerParameter } from './declare.ts';

interface ById {
  Params: { id: string };
  Querystring: Query;
}

const byId = {
  tag: 'responses',
  params: pathParameters({ id: 'Id of the response' }),
  errors: [404, 501, 502],
} as const;
const ofProvider = queryOfParameters({ provider: providerParameter });

const declared = {
  get: anyKey('getResponse', 'Get a response', {
    ...byId,
    querystring: queryOfParameters({
      provider: providerParameter,
      stream: booleanParameter('`true`: the stream of the response, to its end when it is still generated'),
      include_obfuscation: booleanParameter('Forwarded to the provider'),
      starting_after: numberParameter(
        { least: 0, most: Number.MAX_SAFE_INTEGER },
        'With `stream`: sequence number of the event before the first one sent',
      ),
    }),
    response: { 200: jsonOrEventsAnswer('The stored response, or its stream', answers.earlierResponse) },
  }),
  cancel: anyKey('cancelResponse', 'Cancel a background response', {
    ...byId,
    querystring: ofProvider,
    response: { 200: jsonAnswer('The response', answers.earlierResponse) },
  }),
  delete: anyKey('deleteResponse', 'Delete a response', {
    ...byId,
    querystring: ofProvider,
    response: { 200: jsonAnswer('The response is deleted', answers.responseDeletion) },
  }),
  listInputItems: anyKey('listInputItems', 'List the input items of a response', {
    ...byId,
    querystring: queryOfParameters({ provider: providerParameter, ...openAiPageParameters }),
    response: { 200: jsonAnswer('A page of items', answers.inputItemList) },
  }),
};

export function registerResponses(
  app: Routes,
  deps: lifecycle.LifecycleDependencies,
  open: Pick<OpenExchanges, 'serve'>,
  audit: ReadAudit,
): void {
  /** Called before the answer's body is sent, after the check that the caller may read it. */
  const noteRead = (what: 'response' | 'response_stream' | 'response_input_items', request: FastifyRequest<ById>) =>
    audit.stored(what, streamName('response', request.params.id), callerOf(request), eventContextOf(request));
  app.get<ById>('/v1/responses/:id', declared.get, async (request, reply) => {
    const after = checkRetrieveQuery(request.query);
    if (request.query['stream'] !== 'true') {
      const response = await lifecycle.retrieveResponse(lifecycleRequest(request), deps);
      await noteRead('response', request);
      return response;
    }
    const ended = new AbortController();
    const withSignal = { ...lifecycleRequest(request), signal: ended.signal };
    const stream = await lifecycle.openResponseStream(withSignal, after ?? -1, deps);
    const { id: requestId } = request;
    if (request.method === 'HEAD') {
      ended.abort();
      return reply.type('text/event-stream; charset=utf-8').send('');
    }
    await noteRead('response_stream', request);
    await open.serve(reply, async (client) => {
      if (client.ended.aborted) ended.abort();
      else client.ended.addEventListener('abort', () => ended.abort(), { once: true });
      await sendEvents(stream, { 'x-request-id': requestId }, client);
    });
    return reply;
  });
  app.get<ById>('/v1/responses/:id/input_items', declared.listInputItems, async (request) => {
    // Also checked when the provider lists the items.
    const query = openAiPageIn(request.query);
    const items = await lifecycle.inputItemsOf(lifecycleRequest(request), deps);
    if ('native' in items) return items.native;
    const page = itemPage(items.stored, query, request.params.id);
    await noteRead('response_input_items', request);
    return page;
  });
  app.post<ById>('/v1/responses/:id/cancel', declared.cancel, async (request) => {
    const response = await lifecycle.cancelResponse(lifecycleRequest(request), deps);
    await noteRead('response', request);
    return response;
  });
  app.delete<ById>('/v1/responses/:id', declared.delete, (request) =>
    lifecycle.deleteResponse(lifecycleRequest(request), deps),
  );
}

/** @returns `starting_after`. @throws Refusal 400 */
function checkRetrieveQuery(query: ById['Querystring']): number | undefined {
  for (const name of ['stream', 'include_obfuscation']) {
    const value = query[name];
    if (value !== undefined && value !== 'true' && value !== 'false') {
      throw refusals.invalidRequest(`'${name}' must be true or false.`, name);
    }
  }
  return startingAfterIn(query);
}

function lifecycleRequest(request: FastifyRequest<ById>): lifecycle.LifecycleRequest {
  const { provider, ...others } = request.query;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(others)) {
    for (const one of Array.isArray(value) ? value : [value ?? '']) query.append(name, one);
  }
  const text = query.toString();
  return {
    id: request.params.id,
    provider: single(provider),
    query: text === '' ? '' : `?${text}`,
    requestId: request.id,
    context: eventContextOf(request),
    caller: callerOf(request),
    signal: AbortSignal.timeout(60_000),
  };
}

// An event stream outside an exchange: written at the client's pace, with heartbeats while no events arrive.

/** Resolves at the end of the stream. A stream that fails or is ended early ends with an error for the client. */
async function sendEvents(stream: EventStream, headers: Record<string, string>, client: Client): Promise<void> {
  client.begin(200, { ...headers, 'content-type': 'text/event-stream; charset=utf-8' });
  const heartbeat = new Heartbeat((comment) => client.write(comment));
  const write = (bytes: Buffer) => {
    heartbeat.sent();
    return client.write(bytes);
  };
  try {
    if ('pieces' in stream) await stream.pieces((bytes) => write(bytes));
    else for await (const bytes of stream) await write(bytes);
    if (client.ended.aborted) client.refuse(refusals.stopping(), {});
    else client.end();
  } catch (error) {
    client.refuse(refusals.internal(error), {});
  } finally {
    heartbeat.stop();
  }
}
