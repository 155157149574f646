/** `/v1/conversations` and what is below it: kept by the gateway itself, whoever answers. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type AtConversation,
  addItems,
  type ConversationDependencies,
  createConversation,
  deleteConversation,
  deleteItem,
  listItems,
  retrieveConversation,
  retrieveItem,
  updateConversation,
} from '../../commands/conversations/conversations.ts';
import type { EventContext, UserPath } from '../../events/event.ts';
import { bodyOf, callerOf } from '../server.ts';

type Query = Record<string, string | string[] | undefined>;

interface ById {
  Params: { id: string };
  Querystring: Query;
}

interface ByItem {
  Params: { id: string; item: string };
}

const CONVERSATIONS = '/v1/conversations';
const CONVERSATION = `${CONVERSATIONS}/:id`;
const ITEMS = `${CONVERSATION}/items`;
const ITEM = `${ITEMS}/:item`;

export function registerConversations(app: FastifyInstance, deps: ConversationDependencies): void {
  app.post(CONVERSATIONS, (request) => createConversation(bodyOf(request), contextOf(request), deps));
  app.get<ById>(CONVERSATION, (request) => retrieveConversation(at(request), deps));
  app.post<ById>(CONVERSATION, (request) => updateConversation(at(request), bodyOf(request), deps));
  app.delete<ById>(CONVERSATION, (request) => deleteConversation(at(request), deps));
  app.post<ById>(ITEMS, (request) => addItems(at(request), bodyOf(request), deps));
  app.get<ById>(ITEMS, (request) => {
    const { limit, order, after } = request.query;
    return listItems(at(request), { limit: last(limit), order: last(order), after: last(after) }, deps);
  });
  app.get<ByItem>(ITEM, (request) => retrieveItem(at(request), request.params.item, deps));
  app.delete<ByItem>(ITEM, (request) => deleteItem(at(request), request.params.item, deps));
}

function at(request: FastifyRequest<{ Params: { id: string } }>): AtConversation {
  return { id: request.params.id, context: contextOf(request) };
}

function contextOf(request: FastifyRequest): EventContext {
  const { actor, userPath } = callerOf(request);
  return { actor, userPath: userPath as UserPath | undefined, requestId: request.id };
}

/** The value of a query parameter; of several, the last. */
function last(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.at(-1) : value;
}
