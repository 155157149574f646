/** All event types. `docs/events.md` is generated from this list (`npm run docs:events`). */
import type { RecordedEvent } from '../event.ts';
import * as access from './access.ts';
import * as budget from './budget.ts';
import * as cache from './cache.ts';
import type { EventDefinition } from './define.ts';
import * as exchange from './exchange.ts';
import * as gateway from './gateway.ts';
import * as guardrail from './guardrail.ts';
import * as mcp from './mcp.ts';
import * as mcpServer from './mcp-server.ts';
import * as provider from './provider.ts';
import * as realtime from './realtime.ts';
import * as response from './response.ts';
import * as workflow from './workflow.ts';

export const families = {
  access,
  workflow,
  guardrail,
  budget,
  exchange,
  cache,
  response,
  realtime,
  provider,
  'mcp-server': mcpServer,
  gateway,
  mcp,
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
