/** Finds the files of a plugin. */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, resolve, sep } from 'node:path';

/** How the configuration names a plugin. */
export type PluginPlace =
  /** A module, or a folder with a package.json. */
  | { readonly path: string }
  /** A package that can be resolved from the folder of the configuration. */
  | { readonly package: string };

export interface PluginFiles {
  /** The module; absolute. */
  readonly entry: string;
  /** The module itself, or its package: everything that its digest covers. */
  readonly root: string;
  /** The working folder of its process. */
  readonly folder: string;
  /** What its process may read: the plugin, and the `node_modules` from which it may import. */
  readonly readable: readonly string[];
}

/** @param from the folder against which paths and packages are resolved. @throws Error that names the path */
export async function locatePlugin(place: PluginPlace, from: string): Promise<PluginFiles> {
  if ('package' in place) return ofFolder(packageFolder(place.package, from), place.package);
  const path = resolve(from, place.path);
  if (!existsSync(path)) throw new Error(`there is no file ${path}`);
  const real = realpathSync(path);
  if (statSync(real).isDirectory()) return ofFolder(real, path);
  mustBeFile(real);
  return { entry: real, root: real, folder: dirname(real), readable: [real, ...modulesAbove(dirname(real))] };
}

const moduleName = /\.(m|c)?(j|t)s$/;

/** The plugins in a folder: modules, and folders with a package.json. Sorted. @throws Error that names the folder */
export async function pluginsIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw new Error(`${folder} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  });
  return entries
    .map(({ name }) => join(folder, name))
    .filter((path) => isPlugin(path))
    .sort();
}

function isPlugin(path: string): boolean {
  const name = basename(path);
  if (name.startsWith('.') || name === 'node_modules') return false;
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory()) return existsSync(join(path, 'package.json'));
  return found?.isFile() === true && moduleName.test(name) && !/\.(test|spec)\.|\.d\.[mc]?ts$/.test(name);
}

async function ofFolder(folder: string, shown: string): Promise<PluginFiles> {
  const manifest = join(folder, 'package.json');
  if (!existsSync(manifest)) throw new Error(`${shown} is a folder without a package.json`);
  mustBeFile(manifest);
  let read: unknown;
  try {
    read = JSON.parse(await readFile(manifest, 'utf8'));
  } catch (error) {
    throw new Error(`${manifest} is no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  const named = entryIn(read) ?? 'index.js';
  const path = resolve(folder, named);
  if (path !== folder && !path.startsWith(folder + sep))
    throw new Error(`${manifest}: '${named}' is outside the package`);
  if (!existsSync(path)) throw new Error(`${manifest} names '${named}', which does not exist`);
  mustBeFile(path);
  return { entry: path, root: folder, folder, readable: [folder, ...modulesAbove(dirname(folder))] };
}

/** A pipe would be waited for. @throws Error */
function mustBeFile(path: string): void {
  if (!statSync(path).isFile()) throw new Error(`${path} is no regular file`);
}

/** The module that a package.json names: `exports` as a text or its `.`, or else `main`. */
function entryIn(manifest: unknown): string | undefined {
  const member = (of: unknown, name: string): unknown =>
    typeof of === 'object' && of !== null ? Reflect.get(of, name) : undefined;
  const exported = member(manifest, 'exports');
  const main = member(exported, '.') ?? exported;
  const named = [main, member(main, 'import'), member(main, 'default'), member(manifest, 'main')];
  return named.find((one): one is string => typeof one === 'string');
}

function packageFolder(name: string, from: string): string {
  const require = createRequire(join(from, 'chancery.yaml'));
  for (const modules of require.resolve.paths(name) ?? []) {
    const folder = join(modules, name);
    if (existsSync(join(folder, 'package.json'))) return realpathSync(folder);
  }
  throw new Error(`the package '${name}' is not installed in ${from} or a folder above it`);
}

/** The folders `node_modules` in `folder` and above, from which Node resolves imports. */
function modulesAbove(folder: string): string[] {
  const found: string[] = [];
  for (let at = folder; ; at = dirname(at)) {
    const modules = join(at, 'node_modules');
    if (basename(at) !== 'node_modules' && existsSync(modules)) found.push(modules);
    if (basename(at) === 'node_modules') found.push(at);
    if (at === dirname(at)) return [...new Set(found)];
  }
}
