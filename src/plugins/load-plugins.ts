/** Loads the plugins of the configuration. A plugin that cannot be loaded is listed with its error. */

import { createHash } from 'node:crypto';
import { lstatSync, statSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { canonicalJson } from '../commands/canonical-json.ts';
import { pluginLoaded } from '../events/catalogue/gateway.ts';
import { type EventContext, streamName } from '../events/event.ts';
import { type EventLog, newestEvent, WrongExpectedRevision } from '../events/log.ts';
import { PluginHost } from './host/plugin-host.ts';
import { locatePlugin, type PluginPlace } from './locate.ts';
import { type PluginManifest, readPluginManifest, type Settings } from './manifest.ts';

export interface PluginEntry {
  readonly place: PluginPlace;
  /** In place of the name in the manifest. */
  readonly name?: string | undefined;
  readonly config: Readonly<Record<string, unknown>>;
  /** Whether the gateway does not start without it. */
  readonly required: boolean;
  readonly memoryBytes: number;
  /** Of a call without a time limit of its own. */
  readonly timeoutMs: number;
  /** Whether requests fail when its hook `request` fails. */
  readonly failMode: 'closed' | 'open';
  /** The setting and its variable, for errors. */
  readonly setting: string;
}

export interface LoadedPlugin {
  readonly name: string;
  /** The module or the folder of the package. */
  readonly source: string;
  readonly digest: string;
  readonly manifest: PluginManifest;
  readonly host: PluginHost;
  readonly entry: PluginEntry;
  readonly maxTimeoutMs: number;
  /** The settings of the entry, checked when a hook needs them. */
  readonly config: Readonly<Record<string, unknown>>;
}

export interface FailedPlugin {
  readonly name: string;
  readonly source: string;
  readonly error: string;
}

export interface LoadPluginsOptions {
  readonly entries: readonly PluginEntry[];
  /** The folder against which paths and packages are resolved. */
  readonly from: string;
  /** Undefined: what is loaded is not recorded. */
  readonly log: Pick<EventLog, 'append' | 'readStream'> | undefined;
  /** Names that a plugin may not have. */
  readonly reserved: ReadonlySet<string>;
  /** Milliseconds for the start of a plugin. */
  readonly initMs?: number;
  /** Longest time limit of a call. */
  readonly maxTimeoutMs: number;
  output(plugin: string, line: string): void;
  problem(message: string): void;
}

/** In the order of the configuration. */
export interface LoadedPlugins {
  readonly loaded: readonly LoadedPlugin[];
  readonly failed: readonly FailedPlugin[];
  stop(): Promise<void>;
}

const INIT_MS = 10_000;
const GRACE_MS = 1_000;
const MAX_IN_FLIGHT = 64;

/**
 * New and changed plugins are on record when this resolves. @throws Error when a required plugin cannot be loaded;
 * LogUnavailable
 */
export async function loadPlugins(options: LoadPluginsOptions): Promise<LoadedPlugins> {
  const results = await Promise.all(options.entries.map((entry) => loadOne(entry, options)));
  const loaded: LoadedPlugin[] = [];
  const failed: FailedPlugin[] = [];
  const stop = async () => {
    await Promise.all(results.map((one) => ('host' in one ? one.host.stop() : undefined)));
  };
  const names = new Set<string>(options.reserved);
  for (const [place, one] of results.entries()) {
    const entry = options.entries[place];
    const error = 'error' in one ? one.error : nameProblem(one, names);
    if (error === undefined && 'host' in one) {
      names.add(one.name);
      loaded.push(one);
      continue;
    }
    if ('host' in one) await one.host.stop();
    const message = `${entry?.setting}: the plugin ${one.source} cannot be loaded: ${error}`;
    if (entry?.required === true) {
      await stop();
      throw new Error(message);
    }
    options.problem(message);
    failed.push({ name: one.name, source: one.source, error: error ?? '' });
  }
  try {
    for (const one of loaded) await recordLoaded(one, options.log);
  } catch (error) {
    await stop();
    throw error;
  }
  return { loaded, failed, stop };
}

function nameProblem({ name }: LoadedPlugin | FailedPlugin, names: ReadonlySet<string>): string | undefined {
  return names.has(name) ? `its name '${name}' is taken; set another with 'name'` : undefined;
}

async function loadOne(entry: PluginEntry, options: LoadPluginsOptions): Promise<LoadedPlugin | FailedPlugin> {
  const { place } = entry;
  let source = 'package' in place ? place.package : place.path;
  let host: PluginHost | undefined;
  let name =
    entry.name ??
    source
      .split('/')
      .at(-1)
      ?.replace(/\.[cm]?[jt]s$/, '') ??
    source;
  try {
    const files = await locatePlugin(place, options.from);
    source = files.root;
    const digest = await digestOf(files.root);
    host = new PluginHost({
      ...files,
      memoryBytes: entry.memoryBytes,
      initMs: options.initMs ?? INIT_MS,
      graceMs: GRACE_MS,
      maxInFlight: MAX_IN_FLIGHT,
      output: (line) => options.output(name, line),
      crashed: (reason) => options.problem(`the plugin '${name}' failed: ${reason}`),
      async whyNotAgain() {
        const now = await digestOf(files.root).catch(() => undefined);
        return now === digest ? undefined : 'its files changed; restart the gateway to load them';
      },
    });
    const manifest = readPluginManifest(await host.start());
    name = entry.name ?? manifest.name;
    const config = { ...manifest.settings.defaults, ...entry.config };
    const problem = configProblem(manifest, config, entry.config);
    if (problem !== undefined) throw new Error(`its config is invalid: ${problem}`);
    const { maxTimeoutMs } = options;
    return { name, source, digest, manifest, host, entry, maxTimeoutMs, config };
  } catch (error) {
    await host?.stop();
    return { name, source, error: error instanceof Error ? error.message : String(error) };
  }
}

/** A plugin whose settings are those of its guardrails may leave required ones to them. */
function configProblem(
  { settings, hooks }: PluginManifest,
  complete: Readonly<Record<string, unknown>>,
  given: Readonly<Record<string, unknown>>,
): string | undefined {
  const needsAll = hooks.includes('request') || hooks.includes('complete');
  if (!needsAll && Object.keys(given).length === 0) return undefined;
  const read = settings.read(complete);
  if (read.ok || (!needsAll && isMissing(read, complete, settings))) return undefined;
  return read.problem;
}

function isMissing({ key }: { readonly key?: string }, given: Readonly<Record<string, unknown>>, { schema }: Settings) {
  const { required } = schema;
  return key !== undefined && Array.isArray(required) && required.includes(key) && given[key] === undefined;
}

const context: EventContext = { actor: 'system' };
const MAX_ATTEMPTS = 32;

/** @throws LogUnavailable */
async function recordLoaded(
  { name, source, digest, manifest }: LoadedPlugin,
  log: LoadPluginsOptions['log'],
): Promise<void> {
  if (log === undefined) return;
  const { label, version, description, hooks, mutates, guardrail, settings, routeSettings } = manifest;
  const data = {
    ...{ name, label, version, description, source, digest, hooks, mutates, guardrail },
    ...{ config: settings.schema, routeConfig: routeSettings.schema },
  };
  const stream = streamName('plugin', name);
  for (let attempt = 1; ; attempt++) {
    const last = await newestEvent(stream, log);
    if (last !== undefined && canonicalJson(last.data) === canonicalJson(JSON.parse(JSON.stringify(data)))) return;
    const events = [pluginLoaded.create(data, context)];
    try {
      await log.append([{ stream, events, expectedRevision: last?.revision ?? 'noStream' }]);
      return;
    } catch (error) {
      // Another gateway has loaded it at the same moment.
      if (!(error instanceof WrongExpectedRevision) || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

/** The digest of a plugin: SHA-256 over the names and contents of its files. */
const MAX_FILES = 10_000;
const MAX_BYTES = 256 * 1024 * 1024;

/**
 * Covers a single module, or every file of a package except `node_modules` and folders whose names begin with a dot.
 * The lock file of a package stands for its dependencies. @throws Error for a package that is too large, or has files that are not regular
 */
async function digestOf(root: string): Promise<string> {
  const isFolder = lstatSync(root).isDirectory();
  const files = isFolder ? await filesIn(root) : [root];
  const hash = createHash('sha256');
  let bytes = 0;
  for (const file of files) {
    const found = statSync(file);
    if (!found.isFile()) throw new Error(`${file} is no regular file`);
    bytes += found.size;
    if (bytes > MAX_BYTES) throw new Error(`${root} has more than ${MAX_BYTES} bytes`);
    const content = await readFile(file);
    const name = isFolder ? relative(root, file).split(sep).join('/') : '';
    hash.update(`${name.length} ${name} ${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}

/** Sorted by name, so that the digest does not depend on the file system. */
async function filesIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  const folders = [folder];
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    for (const entry of await readdir(at, { withFileTypes: true })) {
      const path = join(at, entry.name);
      if (entry.isDirectory()) {
        if (entry.name !== 'node_modules' && !entry.name.startsWith('.')) folders.push(path);
      } else {
        found.push(path);
      }
    }
    if (found.length > MAX_FILES) throw new Error(`${folder} has more than ${MAX_FILES} files`);
  }
  return found.sort();
}
