/** The OpenAPI operations of every route. */

import { accessOperations } from './openapi-admin-access.ts';
import { auditOperations } from './openapi-admin-audit.ts';
import { gatewayAdminOperations } from './openapi-admin-gateway.ts';
import { adminHistoryOperations } from './openapi-admin-history.ts';
import { limitOperations } from './openapi-admin-limits.ts';
import { pluginOperations } from './openapi-admin-plugins.ts';
import { pricingOperations } from './openapi-admin-pricing.ts';
import { usageOperations } from './openapi-admin-usage.ts';
import { virtualModelOperations } from './openapi-admin-virtual-models.ts';
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
  ...accessOperations,
  ...gatewayAdminOperations,
  ...virtualModelOperations,
  ...adminHistoryOperations,
  ...auditOperations,
  ...pluginOperations,
  ...pricingOperations,
  ...limitOperations,
  ...usageOperations,
];
