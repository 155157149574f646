/** Routes of `/v1/conversations`. The gateway stores conversations itself, for every provider. */

import type { FastifyRequest } from 'fastify';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
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
import { conversationStream } from '../../commands/conversations/load-conversation.ts';
import { anyKey } from '../access-class.ts';
import type { Routes } from '../api/route-schema.ts';
import { openAiPageIn } from '../paging.ts';
import type { Query } from '../query.ts';
import { bodyOf, callerOf, requesterOf } from '../server.ts';

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

export function registerConversations(app: Routes, deps: ConversationDependencies, audit: ReadAudit): void {
  /** Called before the items are sent, after the check that the caller may read them. */
  const noteRead = (request: FastifyRequest<{ Params: { id: string } }>) => {
    const { id, context } = at(request);
    return audit.stored('conversation_items', conversationStream(id), callerOf(request), context);
  };
  app.post(CONVERSATIONS, anyKey, (request) => createConversation(bodyOf(request), requesterOf(request), deps));
  app.get<ById>(CONVERSATION, anyKey, (request) => retrieveConversation(at(request), deps));
  app.post<ById>(CONVERSATION, anyKey, (request) => updateConversation(at(request), bodyOf(request), deps));
  app.delete<ById>(CONVERSATION, anyKey, (request) => deleteConversation(at(request), deps));
  app.post<ById>(ITEMS, anyKey, (request) => addItems(at(request), bodyOf(request), deps));
  app.get<ById>(ITEMS, anyKey, async (request) => {
    const page = await listItems(at(request), openAiPageIn(request.query), deps);
    await noteRead(request);
    return page;
  });
  app.get<ByItem>(ITEM, anyKey, async (request) => {
    const item = await retrieveItem(at(request), request.params.item, deps);
    await noteRead(request);
    return item;
  });
  app.delete<ByItem>(ITEM, anyKey, (request) => deleteItem(at(request), request.params.item, deps));
}

function at(request: FastifyRequest<{ Params: { id: string } }>): AtConversation {
  return { id: request.params.id, ...requesterOf(request) };
}
