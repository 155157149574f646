/** The store of the read models, and the read models that belong to no single component. */
import type { Logger } from 'pino';
import { itemFinder } from '../../commands/conversations/conversation.ts';
import type { SealerSource } from '../../commands/credentials/sealed-credentials.ts';
import { trackedObjects } from '../../commands/provider-objects/tracked.ts';
import { archiveOf, withCompactions } from '../../commands/responses/archive.ts';
import type { VisibilityScope } from '../../commands/visibility.ts';
import type { Config } from '../../config/config.ts';
import type { EventLog } from '../../events/log.ts';
import { adminJournal } from '../../projections/admin-journal.ts';
import { guardrailReplaysView } from '../../projections/guardrail-replays.ts';
import { taggingView } from '../../projections/keys.ts';
import { mcpAuthorizationsView, mcpServersView } from '../../projections/mcp-servers.ts';
import { mcpToolsView } from '../../projections/mcp-tools.ts';
import { providerCredentialsView, providerMemory } from '../../projections/provider-memory.ts';
import { createItemIndex, createResponseRecords, createTrackedRecords } from '../../projections/responses.ts';
import { createProjectionRunner } from '../../projections/runner.ts';
import { openViewStore, readViewStore, viewsFile } from '../../projections/view-store.ts';
import { guardrailsView, virtualModelsView, workflowsView } from '../../projections/workflows.ts';

export interface GatewayViewsOptions {
  readonly config: Config;
  readonly log: EventLog;
  readonly logger: Logger;
  /** Of a service with several: the first one saves the read models for all. */
  readonly worker: number | undefined;
}

export type GatewayViews = ReturnType<typeof openGatewayViews>;

/** The read models start reading the log at once. */
export function openGatewayViews({ config, log, logger, worker = 1 }: GatewayViewsOptions) {
  const file = viewsFile(config.dataDir);
  const store =
    worker === 1 ? openViewStore(file, { onDiscarded: (reason) => logger.warn(reason) }) : readViewStore(file);
  const projections = createProjectionRunner(log, store, { onError: (error) => logger.error(error) });
  const views = {
    providerMemory: projections.run(providerMemory),
    credentials: projections.run(providerCredentialsView),
    mcpServers: projections.run(mcpServersView),
    mcpAuthorizations: projections.run(mcpAuthorizationsView),
    mcpTools: projections.run(mcpToolsView),
    tagging: projections.run(taggingView),
    adminJournal: projections.run(adminJournal),
    virtualModels: projections.run(virtualModelsView),
    workflows: projections.run(workflowsView),
    guardrails: projections.run(guardrailsView),
    guardrailReplays: projections.run(guardrailReplaysView),
  };
  return {
    store,
    /** Other components run their own read models on it. */
    projections,
    ...views,
    /** Resolves when the read models that the request path uses have reached the end of the log. */
    caughtUp: () => {
      const { adminJournal: _onlyReports, guardrailReplays: _onlyLists, ...needed } = views;
      return Promise.all(Object.values(needed).map(({ caughtUp }) => caughtUp));
    },
    /** Saves all read models. @throws what SQLite throws when the disk is full; everything is closed in that case too */
    close: () => projections.close().finally(() => store.close()),
  };
}

/** What clients store in the log and refer to by id: responses, items of conversations, files and batches. */
export type StoredObjects = ReturnType<typeof storedObjects>;

/** They are read from the log when a request names them. */
export function storedObjects(log: EventLog, sealers: SealerSource) {
  const archive = archiveOf(createResponseRecords(log));
  const index = createItemIndex(log);
  return {
    archive,
    index,
    /** Finds items for one request of a caller with this visibility. */
    findItem: (visibility: VisibilityScope) =>
      withCompactions(itemFinder(visibility, { log, archive, index }), visibility, sealers),
    tracked: trackedObjects(createTrackedRecords(log)),
  };
}
