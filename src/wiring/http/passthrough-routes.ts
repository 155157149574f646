/** `/p/{provider}/…`: a provider's own API, through the exchange pipeline. */
import type { ModelAccess } from '../../commands/access/model-access.ts';
import { mayBeReturned } from '../../commands/exchange/delivery/answer-headers.ts';
import {
  passthroughDialect,
  refusedPassthrough,
} from '../../commands/exchange/dialects/passthrough/passthrough-dialect.ts';
import type { Config } from '../../config/config.ts';
import type { EventLog } from '../../events/log.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import { mayBeForwarded, registerPassthrough } from '../../http/passthrough.ts';
import type { Registry } from '../../providers/registry.ts';
import { createStatelessRoutes } from '../../providers/stateless-routes.ts';
import { providerType } from '../../providers/types.ts';
import type { Limits } from '../limits.ts';
import type { ModelRequests } from '../model-requests.ts';
import { bodyLimits } from '../size-limits.ts';

export interface PassthroughRoutes {
  readonly config: Config;
  readonly log: EventLog;
  readonly registry: Registry;
  readonly access: ModelAccess;
  readonly limits: Pick<Limits, 'countsBudgets'>;
  readonly requests: Pick<ModelRequests, 'tags' | 'exchanges' | 'run'>;
}

/** Does nothing while passthrough is off. */
export function registerPassthroughRoutes(app: Routes, routes: PassthroughRoutes): void {
  const { config, log, registry, access, limits, requests } = routes;
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
    bounds: config.server.bodyBounds,
    allowV1Alias: v1Alias,
    isEnabled: (type) => types?.includes(type) ?? providerType(type)?.passthrough === true,
    provider: (name) => registry.providerByNameOrType(name),
    mayUse: (caller, name) => access.allowsProvider(caller, name, 'all'),
    stateless: createStatelessRoutes(statelessRoutes ?? []),
    countsBudgets: limits.countsBudgets,
    run(call, client) {
      const dialect = 'refusal' in call ? refusedPassthrough(call) : passthroughDialect(call);
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
