/** Routes of `/v1/conversations`. The gateway stores conversations itself, for every provider. */
import type { FastifyRequest } from 'fastify';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import { conversationStream } from '../../commands/conversations/conversation.ts';
import * as conversations from '../../commands/conversations/conversations.ts';
import {
  addItemsSchema,
  createConversationSchema,
  updateConversationSchema,
} from '../../commands/conversations/conversations.ts';
import * as answers from '../answer-schemas.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { anyKey, jsonAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { openAiPageIn } from '../paging.ts';
import type { Query } from '../request-head.ts';
import { bodyOf, callerOf, requesterOf } from '../server.ts';
import { openAiPageParameters } from './declare.ts';

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

const tag = 'conversations';
const byId = { tag, params: pathParameters({ id: 'Id of the conversation' }) } as const;
const byItem = { tag, params: pathParameters({ id: 'Id of the conversation', item: 'Id of the item' }) } as const;
const whole = (description: string) => ({ 200: jsonAnswer(description, answers.conversation) });

const declared = {
  create: anyKey('createConversation', 'Create a conversation', {
    tag,
    body: createConversationSchema.optional(),
    example: { items: [{ type: 'message', role: 'user', content: 'Hello' }], metadata: { topic: 'demo' } },
    response: whole('The conversation'),
    errors: [404],
  }),
  get: anyKey('getConversation', 'Get a conversation', {
    ...byId,
    response: whole('The conversation'),
    errors: [404],
  }),
  update: anyKey('updateConversation', 'Add to the metadata of a conversation', {
    ...byId,
    body: updateConversationSchema,
    example: { metadata: { topic: 'demo' } },
    response: whole('The changed conversation'),
    errors: [404, 409],
  }),
  delete: anyKey('deleteConversation', 'Delete a conversation', {
    ...byId,
    response: { 200: jsonAnswer('The conversation is deleted', answers.conversationDeletion) },
    errors: [404, 409],
  }),
  addItems: anyKey('addConversationItems', 'Append items to a conversation', {
    ...byId,
    body: addItemsSchema,
    example: { items: [{ type: 'message', role: 'user', content: 'Hello' }] },
    response: { 200: jsonAnswer('The added items', answers.inputItemList) },
    errors: [404, 409],
  }),
  listItems: anyKey('listConversationItems', 'List the items of a conversation', {
    ...byId,
    querystring: queryOfParameters(openAiPageParameters),
    response: { 200: jsonAnswer('A page of items', answers.inputItemList) },
    errors: [404],
  }),
  getItem: anyKey('getConversationItem', 'Get an item of a conversation', {
    ...byItem,
    response: { 200: jsonAnswer('The item', answers.item) },
    errors: [404],
  }),
  deleteItem: anyKey('deleteConversationItem', 'Delete an item of a conversation', {
    ...byItem,
    response: whole('The conversation'),
    errors: [404, 409],
  }),
};

export function registerConversations(
  app: Routes,
  deps: conversations.ConversationDependencies,
  audit: ReadAudit,
): void {
  /** Called before the items are sent, after the check that the caller may read them. */
  const noteRead = (request: FastifyRequest<{ Params: { id: string } }>) => {
    const { id, context } = at(request);
    return audit.stored('conversation_items', conversationStream(id), callerOf(request), context);
  };
  app.post(CONVERSATIONS, declared.create, (request) =>
    conversations.createConversation(bodyOf(request), requesterOf(request), deps),
  );
  app.get<ById>(CONVERSATION, declared.get, (request) => conversations.retrieveConversation(at(request), deps));
  app.post<ById>(CONVERSATION, declared.update, (request) =>
    conversations.updateConversation(at(request), bodyOf(request), deps),
  );
  app.delete<ById>(CONVERSATION, declared.delete, (request) => conversations.deleteConversation(at(request), deps));
  app.post<ById>(ITEMS, declared.addItems, (request) => conversations.addItems(at(request), bodyOf(request), deps));
  app.get<ById>(ITEMS, declared.listItems, async (request) => {
    const page = await conversations.listItems(at(request), openAiPageIn(request.query), deps);
    await noteRead(request);
    return page;
  });
  app.get<ByItem>(ITEM, declared.getItem, async (request) => {
    const item = await conversations.retrieveItem(at(request), request.params.item, deps);
    await noteRead(request);
    return item;
  });
  app.delete<ByItem>(ITEM, declared.deleteItem, (request) =>
    conversations.deleteItem(at(request), request.params.item, deps),
  );
}

function at(request: FastifyRequest<{ Params: { id: string } }>): conversations.AtConversation {
  return { id: request.params.id, ...requesterOf(request) };
}
