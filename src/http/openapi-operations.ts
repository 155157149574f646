/** The OpenAPI operations of every route. */

import { conversationOperations } from './openapi-conversations.ts';
import { forwardedOperations } from './openapi-forwarded.ts';
import { gatewayOperations } from './openapi-gateway.ts';
import { messageBatchOperations } from './openapi-message-batches.ts';
import { modelOperations } from './openapi-models.ts';
import type { Operation } from './openapi-operation.ts';
import { responseOperations } from './openapi-responses.ts';

export const operations: readonly Operation[] = [
  ...modelOperations,
  ...responseOperations,
  ...conversationOperations,
  ...forwardedOperations,
  ...messageBatchOperations,
  ...gatewayOperations,
];
