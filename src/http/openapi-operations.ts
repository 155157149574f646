/** Every route of the gateway, as its description tells of it. */
import { conversationOperations } from './openapi-conversations.ts';
import { forwardedOperations } from './openapi-forwarded.ts';
import { gatewayOperations } from './openapi-gateway.ts';
import { modelOperations } from './openapi-models.ts';
import type { Operation } from './openapi-operation.ts';
import { responseOperations } from './openapi-responses.ts';

export const operations: readonly Operation[] = [
  ...modelOperations,
  ...responseOperations,
  ...conversationOperations,
  ...forwardedOperations,
  ...gatewayOperations,
];
