/** `/v1/responses/{id}` and what is below it. Creation is a model route like the others. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import { pageInputItems } from '../../commands/responses/input-items.ts';
import {
  cancelResponse,
  deleteResponse,
  inputItemsOf,
  type LifecycleDependencies,
  type LifecycleRequest,
  openResponseStream,
  retrieveResponse,
} from '../../commands/responses/lifecycle.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import { type Query, single } from '../query.ts';
import { sendEvents } from '../send-events.ts';
import { eventContextOf } from '../server.ts';

interface ById {
  Params: { id: string };
  Querystring: Query;
}

export function registerResponses(
  app: FastifyInstance,
  deps: LifecycleDependencies,
  open: Pick<OpenExchanges, 'attend'>,
): void {
  app.get<ById>('/v1/responses/:id', async (request, reply) => {
    checkRetrieveQuery(request.query);
    if (request.query['stream'] !== 'true') return retrieveResponse(lifecycleRequest(request), deps);
    const ended = new AbortController();
    const asked = { ...lifecycleRequest(request), signal: ended.signal };
    const after = request.query['starting_after'];
    const stream = await openResponseStream(asked, after === undefined ? -1 : Number(after), deps);
    const { id: requestId } = request;
    if (request.method === 'HEAD') {
      ended.abort();
      return reply.type('text/event-stream; charset=utf-8').send('');
    }
    await open.attend(reply, async (client) => {
      if (client.ended.aborted) ended.abort();
      else client.ended.addEventListener('abort', () => ended.abort(), { once: true });
      await sendEvents(stream, { 'x-request-id': requestId }, client);
    });
    return reply;
  });
  app.get<ById>('/v1/responses/:id/input_items', async (request) => {
    const { limit, order, after } = request.query;
    const page = pageInputItems([], { limit: single(limit), order: single(order), after: single(after) });
    if (!page.ok) throw refusals.invalidRequest(page.refusal.message, page.refusal.param, page.refusal.code);
    const items = await inputItemsOf(lifecycleRequest(request), deps);
    if ('native' in items) return items.native;
    const listed = pageInputItems(items.stored, { limit: single(limit), order: single(order), after: single(after) });
    if (!listed.ok) throw refusals.invalidRequest(listed.refusal.message, listed.refusal.param, listed.refusal.code);
    return listed.page;
  });
  app.post<ById>('/v1/responses/:id/cancel', (request) => cancelResponse(lifecycleRequest(request), deps));
  app.delete<ById>('/v1/responses/:id', (request) => deleteResponse(lifecycleRequest(request), deps));
}

function checkRetrieveQuery(query: ById['Querystring']): void {
  for (const name of ['stream', 'include_obfuscation']) {
    const value = query[name];
    if (value !== undefined && value !== 'true' && value !== 'false') {
      throw refusals.invalidRequest(`'${name}' must be true or false.`, name);
    }
  }
  const after = query['starting_after'];
  if (after !== undefined && !/^\d{1,15}$/.test(String(after))) {
    throw refusals.invalidRequest("'starting_after' must be an integer.", 'starting_after');
  }
}

function lifecycleRequest(request: FastifyRequest<ById>): LifecycleRequest {
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
    signal: AbortSignal.timeout(60_000),
  };
}
