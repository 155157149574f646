/** The manifest that the gateway gets: everything about a plugin but its code. */
import { z } from 'zod';
import type { Plugin } from '../api/plugin.ts';

/** @throws Error when the module has no plugin */
export function pluginIn(module: unknown): Plugin {
  const given: unknown = typeof module === 'object' && module !== null ? Reflect.get(module, 'default') : undefined;
  if (typeof given !== 'object' || given === null) {
    throw new Error("the module has no plugin: write 'export default definePlugin({ … })'");
  }
  const hooks: unknown = Reflect.get(given, 'hooks');
  if (typeof hooks !== 'object' || hooks === null) throw new Error("the plugin has no 'hooks'");
  for (const [name, hook] of Object.entries(hooks)) {
    if (typeof hook !== 'function') throw new Error(`the hook '${name}' is no function`);
  }
  return given as Plugin;
}

export function manifestOf({ hooks, config, routeConfig, ...facts }: Plugin): object {
  return {
    ...facts,
    hooks: Object.keys(hooks),
    config: jsonSchemaOf(config, 'config'),
    routeConfig: jsonSchemaOf(routeConfig, 'routeConfig'),
  };
}

function jsonSchemaOf(schema: unknown, name: string): unknown {
  if (!(schema instanceof z.ZodType)) return schema;
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  } catch (error) {
    throw new Error(`'${name}' has no JSON Schema: ${error instanceof Error ? error.message : String(error)}`);
  }
}
