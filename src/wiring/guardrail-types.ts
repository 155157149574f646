/** The types of guardrails in this gateway, and what their guardrails may use. */
import type { AuxiliaryCalls } from '../commands/auxiliary-calls/auxiliary-calls.ts';
import { ServerCalls } from '../commands/auxiliary-calls/server-calls.ts';
import { type Guardrail, type GuardrailTypes, secretFields } from '../commands/guardrails/guardrail.ts';
import type { GuardrailServices } from '../commands/guardrails/guardrail-type.ts';
import { knownGuardrailTypes } from '../commands/guardrails/types/known-types.ts';
import type { ProxyOf } from '../providers/proxies.ts';

/** The settings of guardrail types that are secrets, for `chancery config print`. */
export const guardrailSecrets: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  knownGuardrailTypes.map((type) => [type.type, secretFields(type)]),
);

export const guardrailTypes: GuardrailTypes = new Map(knownGuardrailTypes.map((type) => [type.type, type]));

export interface GuardrailServicesOptions {
  /** Created after the guardrails, whose policies the exchanges need. */
  auxiliary(): Pick<AuxiliaryCalls, 'call'>;
  /** Whether guardrails of administrators may call servers at local addresses too. */
  readonly allowsLocalServers: boolean;
  readonly proxyOf: ProxyOf;
}

/** Servers of declared guardrails may have local addresses: who writes the configuration operates the machine. */
export function createGuardrailServices({ auxiliary, allowsLocalServers, proxyOf }: GuardrailServicesOptions) {
  const servers = new ServerCalls(proxyOf);
  const toAnywhere = servers.fetchFrom('anywhere');
  const notToLocal = servers.fetchFrom('no local addresses');
  return {
    /** @param isDeclared whether the configuration declares this guardrail */
    servicesOf(
      guardrail: Pick<Guardrail, 'name' | 'userPath' | 'timeoutMs' | 'failMode'>,
      isDeclared: boolean,
    ): GuardrailServices {
      const { name, userPath, timeoutMs, failMode } = guardrail;
      const fetch = allowsLocalServers || isDeclared ? toAnywhere : notToLocal;
      return { name, userPath, timeoutMs, failMode, callModel: (call) => auxiliary().call(call), fetch };
    },
    /** Ends the calls of servers. */
    close: () => servers.close(),
  };
}
