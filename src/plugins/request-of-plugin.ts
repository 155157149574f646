/** A plugin with the hook `request` as a plugin of the exchange. */
import { z } from 'zod';
import type { RequestPlugin } from '../commands/exchange/request-plugin.ts';
import type { CallModel } from '../commands/guardrails/guardrail-type.ts';
import { auxiliaryPath } from '../commands/guardrails/types/type-settings.ts';
import { headerNameProblem, isHeaderValue } from '../commands/header-names.ts';
import { problemOf, tooManyMembers } from './answer-problem.ts';
import type { LoadedPlugin } from './load-plugins.ts';

const name = z
  .string()
  .refine((given) => headerNameProblem(given) === undefined && given.toLowerCase() !== 'idempotency-key', {
    error: ({ input }) => headerNameProblem(String(input)) ?? `the header '${String(input)}' cannot be changed`,
  })
  .transform((given) => given.toLowerCase());
const value = z
  .string()
  .max(8192)
  .refine(isHeaderValue, { error: () => 'the value has an invalid character' });
/** As labels of keys. */
const label = z.string().regex(/^[^\s,\p{Cc}][^,\p{Cc}]{0,99}$/u, 'a label has 1 to 100 characters and no comma');

const changes = z.strictObject({
  labels: z.array(label).max(50).optional(),
  headers: z
    .strictObject({
      set: z.record(z.string(), value).optional(),
      remove: z.array(name).max(100).optional(),
    })
    .optional(),
  model: z.string().min(1).max(500).optional(),
  provider: z.string().min(1).max(500).optional(),
  refuse: z
    .strictObject({
      status: z.int().min(400).max(599).default(400),
      code: z
        .string()
        .regex(/^[a-z][a-z0-9_]{0,63}$/)
        .default('request_refused'),
      message: z.string().min(1).max(2000),
    })
    .optional(),
});

export function requestOfPlugin(plugin: LoadedPlugin, callModel: CallModel): RequestPlugin {
  const { host, entry, digest, config } = plugin;
  return {
    name: plugin.name,
    digest,
    failMode: entry.failMode,
    async run(request, { requestId, exchangeId, userPath, signal }) {
      const { model, provider = '', labels } = request;
      const given = await host.call({
        hook: 'request',
        input: request,
        context: { requestId, userPath, model, provider, labels },
        config,
        deadlineMs: entry.timeoutMs,
        signal,
        chat: (call, within) => {
          const path = auxiliaryPath({ name: plugin.name, userPath: undefined }, { userPath });
          return callModel({ ...call, requestId, exchangeId, userPath: path, signal: within });
        },
      });
      if (given === undefined || given === null) return undefined;
      const tooMany =
        tooManyMembers(given, { labels: 50 }) ??
        tooManyMembers(Reflect.get(Object(given), 'headers'), { set: 100, remove: 100 });
      if (tooMany !== undefined) throw new Error(`its changes are invalid: ${tooMany}`);
      const read = changes.safeParse(given);
      if (!read.success) throw new Error(`its changes are invalid: ${problemOf(read.error)}`);
      const { headers, ...rest } = read.data;
      return { ...rest, setHeaders: lowerCase(headers?.set), removeHeaders: headers?.remove };
    },
  };
}

/** @throws Error for a header that cannot be changed */
function lowerCase(set: Readonly<Record<string, string>> | undefined): Record<string, string> | undefined {
  if (set === undefined) return undefined;
  const named = Object.entries(set).map(([given, text]) => {
    const read = name.safeParse(given);
    if (!read.success) throw new Error(`its changes are invalid: ${problemOf(read.error)}`);
    return [read.data, text] as const;
  });
  return Object.fromEntries(named);
}
