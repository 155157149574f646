/** Reads the configuration of a running gateway again: what changes, what needs a restart, and what is wrong. */
import { isDeepStrictEqual } from 'node:util';
import type { Config } from './config.ts';
import { type ConfigSources, loadConfig, type ValidConfig } from './load-config.ts';
import { maskAddress } from './mask.ts';
import { describeProblem, isMapping, valueAt } from './problem.ts';
import { fileSchema } from './schema.ts';
import { factsAt, isSecretAt, leavesOf } from './setting.ts';

/** A setting that has changed. Without `before` or `after` it was or is not set; a secret has neither. */
export interface SettingChange {
  readonly setting: string;
  readonly before?: string | undefined;
  readonly after?: string | undefined;
  readonly secret?: true | undefined;
}

export interface ConfigurationChange {
  /** The first `MAX_CHANGES` of them. */
  readonly changed: readonly SettingChange[];
  readonly needsRestart: readonly string[];
}

const MAX_CHANGES = 1000;
const MAX_SHOWN = 500;

type Reading =
  | { readonly ok: true; readonly config: Config; readonly change: ConfigurationChange; accept(): void }
  | { readonly ok: false; readonly problems: readonly string[] };

/** The configuration in force, and the sources from which it was read. */
export class RunningConfiguration {
  readonly #sources: ConfigSources;
  #inForce: ValidConfig;

  constructor(sources: ConfigSources, inForce: ValidConfig) {
    this.#sources = sources;
    this.#inForce = inForce;
  }

  get config(): Config {
    return this.#inForce.config;
  }

  /** Reads all sources. Nothing changes before `accept` of the result is called. */
  read(): Reading {
    const next = loadConfig(this.#sources, this.#inForce.settings);
    if (!next.ok) return { ok: false, problems: next.problems.map(describeProblem) };
    // It may be about to be written.
    const gone = this.#inForce.files.filter((path) => !next.files.includes(path));
    if (gone.length > 0) return { ok: false, problems: gone.map((path) => `${path} is missing or empty`) };
    const { config, needsRestart } = next;
    const changed = changesBetween(this.#inForce, next, fileSchema(this.#sources.providerTypes));
    return {
      ok: true,
      config,
      change: { changed: changed.slice(0, MAX_CHANGES), needsRestart },
      accept: () => {
        this.#inForce = next;
      },
    };
  }
}

function changesBetween(before: ValidConfig, after: ValidConfig, schema: ReturnType<typeof fileSchema>) {
  const both = [before, after];
  const settings = leavesOf(schema)
    .map(({ path }) => path)
    .filter((path) => !isDeepStrictEqual(valueAt(before.settings, path), valueAt(after.settings, path)));
  const members = both
    .flatMap(({ rawSettings }) => Object.entries(mappingOf(rawSettings.get(['providers']))))
    .flatMap(([name, provider]) => Object.keys(mappingOf(provider)).map((member) => ['providers', name, member]))
    .filter((path) => !isDeepStrictEqual(before.rawSettings.get(path), after.rawSettings.get(path)));
  const changed = new Map([...settings, ...members].map((path) => [path.join('.'), path]));
  const changes = [...changed].map(([setting, path]): SettingChange => {
    const isSecret =
      isSecretAt(schema, path) ||
      factsAt(schema, path)?.holdsSecrets === true ||
      both.some(({ rawSettings }) => rawSettings.hasFileContent(rawSettings.get(path)));
    if (isSecret) return { setting, secret: true };
    const [was, is] = both.map(({ rawSettings }) => shown(rawSettings.get(path), factsAt(schema, path)?.masking));
    return { setting, ...(was === undefined ? {} : { before: was }), ...(is === undefined ? {} : { after: is }) };
  });
  if (settings.length > 0) return changes;
  // A file of certificates has another content.
  const others = after.config.providers.filter((provider) => {
    const known = before.config.providers.find(({ name }) => name === provider.name);
    return known !== undefined && !isDeepStrictEqual(known, provider);
  });
  const unexplained = others.filter(({ name }) => !members.some(([, changedName]) => changedName === name));
  return [...changes, ...unexplained.map(({ name }) => ({ setting: `providers.${name}`, secret: true as const }))];
}

function mappingOf(value: unknown): Record<string, unknown> {
  return isMapping(value) ? value : {};
}

function shown(value: unknown, masking = maskAddress): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'string') return masking(value).slice(0, MAX_SHOWN);
  const mask = (_key: string, member: unknown) => (typeof member === 'string' ? masking(member) : member);
  return JSON.stringify(value, mask).slice(0, MAX_SHOWN);
}
