/** Configurations as the plugin's own schema reads them: with its defaults and transformations. */
import { z } from 'zod';
import type { Plugin } from '../api/plugin.ts';
import type { HookName } from '../protocol/messages.ts';

/** Configurations that are kept in the form in which hooks get them. */
const KEPT = 256;

export class InvalidConfig extends Error {}

export class ConfigReader {
  readonly #plugin: Plugin;
  readonly #known = new Map<string, unknown>();

  constructor(plugin: Plugin) {
    this.#plugin = plugin;
  }

  /** @throws InvalidConfig that names the setting at fault */
  read(config: unknown, hook: HookName): unknown {
    const schema: unknown = hook === 'route' ? this.#plugin.routeConfig : this.#plugin.config;
    if (!(schema instanceof z.ZodType)) return config;
    const key = `${hook === 'route'} ${JSON.stringify(config)}`;
    if (this.#known.has(key)) return this.#known.get(key);
    const read = schema.safeParse(config);
    if (!read.success) {
      const [issue] = read.error.issues;
      throw new InvalidConfig(`the configuration is invalid: ${issue?.path.join('.')} ${issue?.message}`);
    }
    if (this.#known.size >= KEPT) this.#known.clear();
    this.#known.set(key, read.data);
    return read.data;
  }
}
