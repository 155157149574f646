/** The files with settings: `.env` and chancery.yaml. */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import type { Problem } from './problem.ts';
import { isMapping } from './raw-settings.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The variables of `.env` in `cwd`; none when there is no such file. */
export function readEnvFile(cwd: string): Environment {
  const path = join(cwd, '.env');
  return existsSync(path) ? parseEnv(readFileSync(path, 'utf8')) : {};
}

export interface SettingsFile {
  /** Undefined when there is none: only the default file may be missing. */
  readonly path?: string;
  readonly settings: Record<string, unknown>;
  readonly problems: readonly Problem[];
  /** Line and column of a text in the value at this path, for messages. */
  placeOf?(path: readonly string[], text: string): string;
}

/** Reads `givenPath` (from `--config` or `CHANCERY_CONFIG`), or else chancery.yaml in `cwd` if it exists. */
export function readSettingsFile(
  cwd: string,
  givenPath: string | undefined,
  variable: string | undefined,
): SettingsFile {
  const path = resolve(cwd, givenPath ?? 'chancery.yaml');
  if (givenPath === undefined && !existsSync(path)) return { settings: {}, problems: [] };
  const failed = (message: string): SettingsFile => ({
    path,
    settings: {},
    problems: [{ path: '', variable, source: 'file', message: `${path}: ${message}` }],
  });
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    return failed(error instanceof Error ? `cannot be read: ${error.message}` : 'cannot be read');
  }
  const document = loadYaml().parseDocument(content, { merge: true });
  const [error] = document.errors;
  if (error !== undefined) return failed(`is not valid YAML: ${firstLine(error.message)}`);
  const settings: unknown = document.toJS() ?? {};
  if (!isMapping(settings)) return failed('must hold a mapping of settings');
  const placeOf = (of: readonly string[], text: string) => {
    const node: unknown = document.getIn(of, true);
    const [begin = 0] = loadYaml().isNode(node) ? (node.range ?? []) : [];
    const before = content.slice(0, Math.max(content.indexOf(text, begin), begin)).split('\n');
    return `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
  };
  return { path, settings, problems: [], placeOf };
}

/** Without the lines of the file that follow: they may have secrets. */
function firstLine(message: string): string {
  return message.replace(/:?\n.*$/s, '');
}

/** Loaded only when there is a file to read or to write: it is a noticeable part of the time to start. */
export function loadYaml(): typeof import('yaml') {
  return createRequire(import.meta.url)('yaml') as typeof import('yaml');
}
