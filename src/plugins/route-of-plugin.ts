/** A plugin with the hook `route` as a strategy of virtual models. */
import { z } from 'zod';
import type { RouteStrategy } from '../commands/virtual-models/virtual-model.ts';
import type { LoadedPlugin } from './load-plugins.ts';

/** Longer than the router waits, so that the router's limit decides. */
const DEADLINE_MS = 1_000;

const selection = z.strictObject({ index: z.int().min(0), reason: z.string().max(200).optional() });

const inputs = new Set(['text', 'textarea', 'number', 'select']);

export function routeOfPlugin({ name, source, host, manifest }: LoadedPlugin): RouteStrategy {
  const { label, description = '', routeFields, routeSettings } = manifest;
  return {
    ...{ name, label, description, source },
    routeFields: routeFields.flatMap(({ input, ...field }) =>
      isRouteInput(input) ? [{ ...field, input, scope: 'route' as const }] : [],
    ),
    readConfig: (config) => routeSettings.read(config),
    async select(config, question, signal) {
      const { userPath, labels, selector } = question;
      const given = await host.call({
        hook: 'route',
        input: question,
        context: { requestId: '', userPath: userPath ?? '/', model: selector, provider: '', labels },
        config,
        deadlineMs: DEADLINE_MS,
        signal,
      });
      return selection.parse(given);
    },
  };
}

function isRouteInput(input: string): input is 'text' | 'textarea' | 'number' | 'select' {
  return inputs.has(input);
}
