/** The read models that keep snapshots between two runs of the gateway. */
import { serialize } from 'node:v8';
import { type Position, type RecordedEvent, START } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { adminJournal } from './admin-journal.ts';
import { sharedSpendView } from './budget-reservations.ts';
import { deferredUsageView } from './deferred-usage.ts';
import { guardrailReplaysView } from './guardrail-replays.ts';
import { keysView, taggingView, usersView } from './keys.ts';
import { rateLimitsView } from './limits.ts';
import { mcpAuthorizationsView, mcpServersView } from './mcp-servers.ts';
import { mcpToolsView } from './mcp-tools.ts';
import type { Projection } from './projection.ts';
import { priceOverridesView, providerCredentialsView, providerMemory } from './provider-memory.ts';
import {
  logIdOf,
  rebuildRequests,
  skippedBy,
  skippedEvents,
  snapshotBasis,
  UnprocessableEvent,
} from './snapshot-basis.ts';
import { spendView } from './spend.ts';
import type { Snapshot } from './view-store.ts';
import { guardrailsView, virtualModelsView, workflowsView } from './workflows.ts';

export interface SavedView {
  readonly name: string;
  readonly version: number;
  readonly about: string;
  /**
   * The snapshot at the end of the log, folded from its beginning; undefined while the log is empty.
   * @throws UnprocessableEvent; AbortError
   */
  fold(log: EventLog, options: FoldOptions): Promise<Snapshot | undefined>;
}

export interface FoldOptions {
  readonly signal: AbortSignal;
  /** Called with each event that was folded. */
  readonly onEvent?: (event: RecordedEvent) => void;
}

export const savedViews: readonly SavedView[] = [
  saved(providerMemory, 'state of each provider: models, capabilities, circuit'),
  saved(providerCredentialsView, 'providers that administrators stored'),
  saved(mcpServersView, 'MCP servers that administrators set up'),
  saved(mcpAuthorizationsView, 'authorizations at MCP servers'),
  saved(taggingView, 'headers that become labels'),
  saved(adminJournal, 'what administrators changed, for queries with as_of'),
  saved(virtualModelsView, 'virtual models and access policies'),
  saved(workflowsView, 'active workflows, and where the log has every version'),
  saved(guardrailsView, 'guardrails that administrators defined'),
  saved(guardrailReplaysView, 'the newest runs of draft workflows over recorded requests'),
  saved(keysView, 'managed keys'),
  saved(usersView, 'policies of user paths'),
  saved(priceOverridesView, 'prices that administrators set'),
  saved(spendView, 'budgets and their spending'),
  saved(sharedSpendView, 'the same with open reservations, where several gateways use the log'),
  saved(rateLimitsView, 'rules of rate limits'),
  saved(mcpToolsView, 'what MCP servers say of their tools, and what was accepted'),
  saved(deferredUsageView, 'deferred work at providers, and the budget reserved for it'),
];

function saved<State>(projection: Projection<State>, about: string): SavedView {
  const { name, version, filter } = projection;
  return {
    name,
    version,
    about,
    async fold(log, { signal, onEvent }) {
      const logId = await logIdOf(log);
      if (logId === undefined) return undefined;
      const skipped = skippedBy(name, await skippedEvents(log));
      const request = (await rebuildRequests(log)).get(name);
      const head = await log.head();
      let position: Position = START;
      let state = projection.initial();
      for await (const event of log.readAll({ filter, signal })) {
        if (event.position > head) break;
        try {
          if (!skipped.has(event.position)) state = projection.apply(state, event);
        } catch (error) {
          throw new UnprocessableEvent(name, event, error);
        }
        position = event.position;
        onEvent?.(event);
      }
      signal.throwIfAborted();
      if (head > position) position = head;
      const basis = snapshotBasis(logId, request);
      return { name, version, logId: basis, position, state: serialize(projection.save?.(state)) };
    },
  };
}

/** What the other read models are about: each start folds the log for them. */
export const aboutUnsavedViews: Readonly<Record<string, string>> = {
  leases: 'the gateways on the log',
  jobs: 'which gateway does the work that only one does',
  'cached-answers': 'answers of the response cache',
  'limited-exchanges': 'requests that other gateways count against rate limits',
};
