/** The routes of clients under `/v1`, except usage: models, model requests, files, batches, responses, conversations. */
import { type ModelAccess, visibleModels } from '../../commands/access/model-access.ts';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { SealerSource } from '../../commands/credentials/sealed-credentials.ts';
import type { RecoveryDependencies } from '../../commands/exchange/background/recover-exchanges.ts';
import { mayBeReturned } from '../../commands/exchange/delivery/answer-headers.ts';
import {
  passthroughDialect,
  refusedPassthrough,
} from '../../commands/exchange/dialects/passthrough/passthrough-dialect.ts';
import { responsesBodyChanges } from '../../commands/exchange/dialects/responses/responses-dialect.ts';
import { socketDialect, steeringDialect } from '../../commands/exchange/dialects/responses/socket-dialect.ts';
import { usableProviders } from '../../commands/files/holders.ts';
import { checkItems, checkSent } from '../../commands/files/named-objects.ts';
import type { Reach, Router } from '../../commands/model-request/routing-types.ts';
import { createClientSecret } from '../../commands/realtime/client-secret.ts';
import { REALTIME } from '../../commands/realtime/realtime-dialect.ts';
import type { LifecycleDependencies } from '../../commands/response-lifecycle/lifecycle.ts';
import { sealCompaction } from '../../commands/responses/compaction.ts';
import type { Config } from '../../config/config.ts';
import type { EventLog } from '../../events/log.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { Authenticator } from '../../http/auth.ts';
import { refusalOfJson } from '../../http/bodies.ts';
import type { OpenExchanges } from '../../http/open-exchanges.ts';
import type { OpenSockets } from '../../http/open-sockets.ts';
import { mayBeForwarded, registerPassthrough } from '../../http/passthrough.ts';
import type { RequestRecorder } from '../../http/request-recorder.ts';
import { registerConversations } from '../../http/v1/conversations.ts';
import { type FilesOptions, registerFiles } from '../../http/v1/files.ts';
import { registerMessageBatches } from '../../http/v1/message-batches.ts';
import {
  type CountTokensOptions,
  registerCountTokens,
  registerModelEndpoints,
  registerModelRoutes,
} from '../../http/v1/model-routes.ts';
import { registerModels } from '../../http/v1/models.ts';
import { acceptPassthroughSocket, type RealtimeOptions, registerRealtime } from '../../http/v1/realtime.ts';
import { registerResponseSockets } from '../../http/v1/response-sockets.ts';
import { registerResponses } from '../../http/v1/responses.ts';
import type { Registry } from '../../providers/registry.ts';
import { createStatelessRoutes } from '../../providers/stateless-routes.ts';
import { providerType } from '../../providers/types.ts';
import type { GatewayDeferredUsage } from '../budgets.ts';
import { bodyLimits, type ModelRequests } from '../exchange.ts';
import type { Limits } from '../limits.ts';
import type { StoredObjects } from '../log/views.ts';
import type { VirtualModels } from '../virtual-models.ts';
import type { Workflows } from '../workflows.ts';

export interface ClientRoutes {
  readonly config: Config;
  readonly recorded: RecoveryDependencies;
  readonly stored: StoredObjects;
  readonly audit: ReadAudit;
  readonly registry: Registry;
  readonly virtualModels: VirtualModels;
  readonly access: ModelAccess;
  readonly router: Router & Reach;
  readonly policyOf: Workflows['policyOf'];
  readonly limits: Limits;
  readonly deferred: GatewayDeferredUsage;
  readonly requests: ModelRequests;
  /** Whether other gateways use the log. */
  hasOtherGateways(): boolean;
  readonly recorder: RequestRecorder;
  /** Seals compactions. */
  readonly sealers: SealerSource;
  readonly authenticator: Authenticator;
  readonly whenCacheProcessed: LifecycleDependencies['whenCacheProcessed'];
  /** The WebSockets of all routes. */
  readonly sockets: OpenSockets;
  /** Undefined while realtime sessions are off. */
  readonly realtime: RealtimeOptions | undefined;
}

/** Realtime sessions, for the routes that open them; undefined while they are off. */
export function realtimeSessions(
  routes: Pick<
    ClientRoutes,
    | 'config'
    | 'recorded'
    | 'stored'
    | 'access'
    | 'limits'
    | 'requests'
    | 'recorder'
    | 'authenticator'
    | 'sockets'
    | 'registry'
  >,
  sealers: SealerSource,
  masterKey: string | undefined,
): RealtimeOptions | undefined {
  const { config, recorded, access, limits, requests, recorder, authenticator, sockets, registry } = routes;
  if (!config.realtime.enabled) return undefined;
  const { log } = recorded;
  const secrets = { log, sealers, masterKey: config.unsafeOpen ? undefined : masterKey, now: Date.now };
  return {
    ...{ exchanges: requests.exchanges, run: requests.run, recorder, authenticator, sockets, access, log },
    sessions: {
      access,
      checkSent: checkSent(routes.stored),
      admission: { admitRequest: (caller) => limits.admission.admitRequest(caller) },
      keepsAudio: config.realtime.recordsAudio,
      maxMessageBytes: bodyLimits(config, log).model,
      hasRealtime: (type) => providerType(type)?.realtime === true,
    },
    providerIn(selector) {
      const name = selector.slice(0, Math.max(0, selector.indexOf('/')));
      return registry.providers.find((one) => one.name === name)?.name;
    },
    createSecret: (given, { caller, context }) => createClientSecret(given, caller, context, secrets),
    problemOf: (message) => refusalOfJson(message, REALTIME, config.server.bodyBounds),
    get stallTimeoutMs() {
      return config.http.stallTimeoutMs;
    },
    limits: config.server.websockets,
  };
}

export function registerClientRoutes(app: Routes, routes: ClientRoutes): void {
  const { recorded, stored, audit, registry, virtualModels, access, router, recorder } = routes;
  const { log, dialects, archive } = recorded;
  const { findItem, tracked } = stored;
  const { exchanges, run } = routes.requests;
  const { keeps } = routes.config.logging;

  registerModels(app, virtualModels.listed(visibleModels(registry, access), access));
  registerModelEndpoints(app, {
    exchanges,
    forward: { keeps },
    responses: { changes: (input) => responsesBodyChanges(input, { archive, log, findItem }) },
    compact: { archive, log, findItem, seal: (summary, owner) => sealCompaction(summary, owner, routes.sealers) },
    run,
  });
  const files: FilesOptions = {
    log,
    audit,
    tracked,
    providersOf: usableProviders(registry, access, router),
    deferred: routes.deferred.usage,
    forecast: routes.limits.forecast,
    exchanges,
    run,
  };
  registerFiles(app, files);
  registerMessageBatches(app, files);
  registerModelRoutes(app, { dialects: [...dialects.values()], exchanges, run });
  const responses = dialects.get('responses');
  if (responses === undefined) throw new Error('the responses dialect is missing');
  const { websockets } = routes.config.server;
  registerResponseSockets(app, {
    exchanges,
    authenticator: routes.authenticator,
    recorder,
    sockets: routes.sockets,
    dialectOf: (memory, generate, steers) =>
      steers === undefined
        ? socketDialect(responses, memory, { archive, log, callsOnSockets: websockets.toProviders }, generate)
        : steeringDialect(responses, memory, steers),
    run,
    get bodyBounds() {
      return routes.config.server.bodyBounds;
    },
    get stallTimeoutMs() {
      return routes.config.http.stallTimeoutMs;
    },
    limits: websockets,
  });
  if (routes.realtime !== undefined) registerRealtime(app, routes.realtime);
  const admitRequest: Limits['admission']['admitRequest'] = (caller) => routes.limits.admission.admitRequest(caller);
  const isGuarded: CountTokensOptions['isGuarded'] = (caller, target) => {
    const { guardrails, problem } = routes.policyOf({ caller }, target);
    return guardrails !== undefined || problem !== undefined;
  };
  registerCountTokens(app, { router, isGuarded, admitRequest, exchanges, run });
  const attend: OpenExchanges['serve'] = (reply, answer) => {
    recorder.answered(reply.request, 200);
    return exchanges.serve(reply, answer);
  };
  registerResponses(app, lifecycle(routes), { serve: attend }, audit);
  registerConversations(
    app,
    { log, findItem, checkItems: checkItems(stored), now: () => Math.floor(Date.now() / 1000) },
    audit,
  );
}

/** With a margin for clocks, checks and the record of the end. */
const LEAST_WAIT_MS = 15_000;
const LEASES = 2;

function lifecycle({
  config,
  recorded,
  registry,
  access,
  requests,
  deferred,
  hasOtherGateways,
  whenCacheProcessed,
}: ClientRoutes): LifecycleDependencies {
  const { log, archive, keys, dialects } = recorded;
  return {
    log,
    archive,
    keys,
    dialects,
    provider: (name) => registry.providerByNameOrType(name),
    providers: () => registry.providers,
    access,
    cancelRunning: (id) => requests.detached.cancel(id),
    hasOtherGateways,
    whenCacheProcessed,
    endElsewhereMs: Math.max(LEAST_WAIT_MS, LEASES * (config.log.leaseMs ?? 0)),
    deferred: deferred.usage,
  };
}

/** `/p/{provider}/…`: a provider's own API, through the exchange pipeline. */
interface PassthroughRoutes {
  readonly config: Config;
  readonly log: EventLog;
  readonly registry: Registry;
  readonly access: ModelAccess;
  readonly limits: Pick<Limits, 'countsBudgets'>;
  readonly requests: Pick<ModelRequests, 'tags' | 'exchanges' | 'run'>;
  readonly realtime: RealtimeOptions | undefined;
}

/** Does nothing while passthrough is off. */
export function registerPassthroughRoutes(app: Routes, routes: PassthroughRoutes): void {
  const { config, log, registry, access, limits, requests, realtime } = routes;
  const { enabled, v1Alias, types, statelessRoutes, requestHeaders, answerHeaders } = config.passthrough;
  if (!enabled) return;
  const { exchanges, tags } = requests;
  const { model, file } = bodyLimits(config, log);
  registerPassthrough(app, {
    exchanges,
    userPathHeader: config.userPathHeader,
    tags,
    addedHeaders: {
      request: addedNames('request_headers', requestHeaders, mayBeForwarded),
      answer: addedNames('response_headers', answerHeaders, mayBeReturned),
    },
    limits: { whole: model, streamed: file },
    get bounds() {
      return config.server.bodyBounds;
    },
    allowV1Alias: v1Alias,
    isEnabled: (type) => types?.includes(type) ?? providerType(type)?.passthrough === true,
    provider: (name) => registry.providerByNameOrType(name),
    mayUse: (caller, name) => access.allowsProvider(caller, name, 'all'),
    stateless: createStatelessRoutes(statelessRoutes ?? []),
    countsBudgets: limits.countsBudgets,
    acceptSocket: realtime && ((request, reply, call) => acceptPassthroughSocket(realtime, request, reply, call)),
    run(call, client) {
      const listedModels = () =>
        registry.list().flatMap(({ provider, model }) => (provider === call.provider?.name ? [model] : []));
      const dialect = 'refusal' in call ? refusedPassthrough(call) : passthroughDialect({ ...call, listedModels });
      return requests.run(dialect, call.request, client);
    },
  });
}

/** @throws Error for a name that no setting may add */
function addedNames(
  member: string,
  names: readonly string[],
  isAllowed: (name: string) => boolean,
): ReadonlySet<string> {
  const refused = names.find((name) => !isAllowed(name));
  if (refused === undefined) return new Set(names);
  throw new Error(
    `passthrough.${member} (PASSTHROUGH_${member.toUpperCase()}): the header '${refused}' is one of the connection, of the gateway, or holds credentials`,
  );
}
