/** All event types. `docs/events.md` is generated from this list (`npm run docs:events`). */
import type { RecordedEvent } from '../event.ts';
import * as access from './access.ts';
import * as audit from './audit.ts';
import * as budget from './budget.ts';
import * as cache from './cache.ts';
import * as conversation from './conversation.ts';
import * as credential from './credential.ts';
import type { EventDefinition } from './define.ts';
import * as exchange from './exchange.ts';
import * as files from './files.ts';
import * as gateway from './gateway.ts';
import * as guard from './guard.ts';
import * as guardedExchange from './guarded-exchange.ts';
import * as guardrail from './guardrail.ts';
import * as guardrailReplay from './guardrail-replay.ts';
import * as idempotency from './idempotency.ts';
import * as item from './item.ts';
import * as job from './job.ts';
import * as key from './key.ts';
import * as lease from './lease.ts';
import * as plugin from './plugin.ts';
import * as price from './price.ts';
import * as provider from './provider.ts';
import * as rateLimit from './rate-limit.ts';
import * as response from './response.ts';
import * as semanticCache from './semantic-cache.ts';
import * as tagging from './tagging.ts';
import * as user from './user.ts';
import * as view from './view.ts';
import * as virtualModel from './virtual-model.ts';
import * as workflow from './workflow.ts';

export const families = {
  key,
  user,
  'virtual-model': virtualModel,
  workflow,
  guardrail,
  'guardrail-replay': guardrailReplay,
  plugin,
  access,
  price,
  budget,
  'rate-limit': rateLimit,
  audit,
  exchange,
  'guarded-exchange': guardedExchange,
  cache,
  'semantic-cache': semanticCache,
  response,
  conversation,
  item,
  idempotency,
  provider,
  credential,
  tagging,
  files,
  gateway,
  lease,
  guard,
  job,
  view,
} as const;

const definitions = new Map<string, EventDefinition>();
for (const family of Object.values(families)) {
  for (const member of Object.values(family)) {
    if (typeof member === 'object' && 'upcasts' in member) {
      definitions.set(member.type, member as unknown as EventDefinition);
    }
  }
}

export const catalogue: ReadonlyMap<string, EventDefinition> = definitions;

/**
 * The event with `data` in its newest schema. Types and versions that this build does not know (a log written by a
 * newer one) are returned unchanged: a reader of the log must never fail on them.
 */
export function upcast(event: RecordedEvent, known = catalogue): RecordedEvent {
  const definition = known.get(event.type);
  if (definition === undefined || event.schema >= definition.version) return event;
  let data = event.data;
  for (let version = event.schema; version < definition.version; version++) {
    data = definition.upcasts[version - 1]?.(data);
  }
  return { ...event, schema: definition.version, data };
}
