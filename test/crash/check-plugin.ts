/** Requests that a plugin has to change: they are changed, or refused, also while its process ends and starts again. */
import { z } from 'zod';
import { isObject } from '../../src/json/is-object.ts';
import { isWholeAnswer, textOf } from './check-guarded.ts';
import { type Conversation, objectOf, type ProviderCall, type Violation } from './evidence.ts';
import type { RecordedExchange, RecordedLog } from './recorded-log.ts';

/** The user path whose workflow has the guardrail of the plugin. */
export const BIRDS = '/birds';
/** The word that the plugin replaces. Only requests at its path contain it. */
const REPLACED = 'Heron';
/** While the plugin does not run. */
const FAILED = { code: 'plugin_failure', message: "The guardrail 'birds' failed, so the request was not served." };

/** No provider gets the word. */
export function checkReplacedWords(calls: readonly ProviderCall[]): Violation[] {
  return calls
    .filter(({ body }) => body?.includes(REPLACED))
    .map(({ provider, path, requestId }) => ({
      check: 'plugin',
      what: `${provider} got ${path} (request ${requestId}) with the word that the plugin replaces`,
    }));
}

/** The plugin ran before every call and every completed answer at its path. */
export function checkPluginExchanges(log: RecordedLog): Violation[] {
  return [...log.exchanges.values()]
    .filter(({ events: [received] }) => received?.context.userPath === BIRDS)
    .flatMap((exchange) => {
      const wrong = wrongWith(exchange);
      return wrong === undefined ? [] : [{ check: 'plugin', what: `exchange ${exchange.id}: ${wrong}` }];
    });
}

const received = z.object({ workflow: z.object({ scope: z.literal(`path:${BIRDS}`) }) });
const applied = z.object({
  phase: z.literal('prompt'),
  verdict: z.literal('allow'),
  edited: z.literal(true),
  runs: z.tuple([z.object({ guardrail: z.literal('birds'), type: z.literal('birds') })]),
});

function wrongWith({ events }: RecordedExchange): string | undefined {
  if (!received.safeParse(events[0]?.data).success) return 'its workflow is not that of the plugin';
  const served = events.findIndex(({ type }) => ['attempt.started', 'cache.hit', 'exchange.completed'].includes(type));
  if (served === -1) return undefined;
  const hasRun = events
    .slice(0, served)
    .some(({ type, data }) => type === 'guardrail.applied' && applied.safeParse(data).success);
  return hasRun ? undefined : 'it was served without the plugin';
}

/**
 * Answers are those to the changed request; errors say that the plugin failed, that the gateway stops, or that it did not call
 * a provider while it was not sure of its lease.
 */
export function checkPluginAnswers(conversations: readonly Conversation[]): Violation[] {
  return conversations.flatMap(({ request, answer }) => {
    const { plugin, requestId, path } = request;
    const { status, body, end } = answer;
    if (plugin === undefined || status === undefined) return [];
    const complain = (what: string) => [{ check: 'plugin', what: `${path} (request ${requestId}): ${what}` }];
    if (status >= 400) {
      const isExpected =
        status === 503 ||
        (status === 500 && (end !== 'whole' || isFailure(body))) ||
        (status === 502 && body.includes('this gateway was not sure to be the only one with the request'));
      return isExpected ? [] : complain(`answered ${status}: ${body}`);
    }
    if (plugin.exits) return complain(`answered ${status}, although the plugin had ended its process`);
    const text = textOf(request, body);
    const fits = isWholeAnswer(request, answer) ? text === plugin.text : plugin.text.startsWith(text);
    return fits ? [] : complain(`the text is ${JSON.stringify(text)}, not ${JSON.stringify(plugin.text)}`);
  });
}

function isFailure(body: Buffer): boolean {
  const error = objectOf(body)?.error;
  // Errors of Messages have no code.
  return isObject(error) && (error.code === FAILED.code || error.message === FAILED.message);
}
