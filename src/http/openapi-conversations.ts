/** OpenAPI operations of conversations. */
import {
  addItemsSchema,
  createConversationSchema,
  updateConversationSchema,
} from '../commands/conversations/conversation-request.ts';
import * as answers from './answer-schemas.ts';
import { json, type Operation, pageParameters } from './openapi-operation.ts';

const errors = [400, 401, 404, 409, 413, 503];
const conversationId = { id: 'The id of the conversation' };
const conversationItem = { ...conversationId, item: 'The id of the item' };

export const conversationOperations: readonly Operation[] = [
  {
    operationId: 'createConversation',
    methods: ['POST'],
    path: '/v1/conversations',
    summary: 'Create a conversation',
    tag: 'conversations',
    request: { required: false, schema: createConversationSchema },
    success: { description: 'The conversation', content: json(answers.conversation) },
    errors: [400, 401, 404, 413, 503],
  },
  {
    operationId: 'getConversation',
    methods: ['GET'],
    path: '/v1/conversations/{id}',
    summary: 'Fetch a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    success: { description: 'The conversation', content: json(answers.conversation) },
    errors: [401, 404],
  },
  {
    operationId: 'updateConversation',
    methods: ['POST'],
    path: '/v1/conversations/{id}',
    summary: 'Add to the metadata of a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    request: { required: true, schema: updateConversationSchema },
    success: { description: 'The conversation as it is now', content: json(answers.conversation) },
    errors: errors,
  },
  {
    operationId: 'deleteConversation',
    methods: ['DELETE'],
    path: '/v1/conversations/{id}',
    summary: 'Delete a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    success: { description: 'It is deleted', content: json(answers.conversationDeletion) },
    errors: [401, 404, 409, 503],
  },
  {
    operationId: 'addConversationItems',
    methods: ['POST'],
    path: '/v1/conversations/{id}/items',
    summary: 'Put items at the end of a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    request: { required: true, schema: addItemsSchema },
    success: { description: 'The items that were added', content: json(answers.inputItemList) },
    errors: errors,
  },
  {
    operationId: 'listConversationItems',
    methods: ['GET'],
    path: '/v1/conversations/{id}/items',
    summary: 'List the items of a conversation',
    tag: 'conversations',
    pathParameters: conversationId,
    parameters: pageParameters('By place in the conversation'),
    success: { description: 'One page of items', content: json(answers.inputItemList) },
    errors: [400, 401, 404],
  },
  {
    operationId: 'getConversationItem',
    methods: ['GET'],
    path: '/v1/conversations/{id}/items/{item}',
    summary: 'Fetch an item of a conversation',
    tag: 'conversations',
    pathParameters: conversationItem,
    success: { description: 'The item', content: json(answers.item) },
    errors: [401, 404],
  },
  {
    operationId: 'deleteConversationItem',
    methods: ['DELETE'],
    path: '/v1/conversations/{id}/items/{item}',
    summary: 'Delete an item of a conversation',
    tag: 'conversations',
    pathParameters: conversationItem,
    success: { description: 'The conversation', content: json(answers.conversation) },
    errors: [401, 404, 409, 503],
  },
];
