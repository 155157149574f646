/**
 * The path of every model request, for JSON and for streams, in every dialect. The effect of a step is recorded
 * before it is visible outside the gateway.
 */
import { admit } from './admit.ts';
import { applyPlugins } from './apply-plugins.ts';
import { callProviders } from './call-providers.ts';
import { claimKey } from './claim-key.ts';
import { guardPrompt } from './guard-prompt.ts';
import { loadHistory } from './load-history.ts';
import { readCache } from './read-cache.ts';
import { receive } from './receive.ts';
import { record } from './record-request.ts';
import { resolveRoute } from './resolve-route.ts';
import { selectPolicy } from './select-policy.ts';
import { inOrder } from './step.ts';

/** An answer ends the list early. `deliver` sends it, and `complete` records the end before the last bytes are sent. */
export const steps = inOrder(
  receive, //        parses the body, once
  applyPlugins, //   plugins may change or refuse the request
  claimKey, //       looks up the idempotency key → answer from the record
  resolveRoute, //   selectors and virtual models → candidates
  selectPolicy, //   the workflow of this request: capture level, features, guardrails
  record, //         request.received, model.resolved
  loadHistory, //    the conversation or response that the request continues
  guardPrompt, //    guardrails of the prompt phase → the request to send, or an answer in place of a provider's
  readCache, //      an equal request → answer from the cache
  admit, //          limits and budgets → reservation, released by the scope; claims the idempotency key
  callProviders, //  failover × retry × attempt → answer
);
