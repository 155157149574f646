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
import { type Query, single } from '../query.ts';
import { bodyOf, eventContextOf } from '../server.ts';

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
  app.post(CONVERSATIONS, (request) => createConversation(bodyOf(request), eventContextOf(request), deps));
  app.get<ById>(CONVERSATION, (request) => retrieveConversation(at(request), deps));
  app.post<ById>(CONVERSATION, (request) => updateConversation(at(request), bodyOf(request), deps));
  app.delete<ById>(CONVERSATION, (request) => deleteConversation(at(request), deps));
  app.post<ById>(ITEMS, (request) => addItems(at(request), bodyOf(request), deps));
  app.get<ById>(ITEMS, (request) => {
    const { limit, order, after } = request.query;
    return listItems(at(request), { limit: single(limit), order: single(order), after: single(after) }, deps);
  });
  app.get<ByItem>(ITEM, (request) => retrieveItem(at(request), request.params.item, deps));
  app.delete<ByItem>(ITEM, (request) => deleteItem(at(request), request.params.item, deps));
}

function at(request: FastifyRequest<{ Params: { id: string } }>): AtConversation {
  return { id: request.params.id, context: eventContextOf(request) };
}
