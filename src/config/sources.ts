/** The files with settings, `.env` and chancery.yaml, the variables inside their strings, and the files of secrets. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { readBoundedFile } from './bounded-file.ts';
import { isMapping, type Problem } from './problem.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The variables of `.env` in `cwd`; none when there is no such file. @throws Error that names it when it cannot be read */
export function readEnvFile(cwd: string): Environment {
  const path = join(cwd, '.env');
  try {
    return existsSync(path) ? parseEnv(readBoundedFile(path).toString()) : {};
  } catch (error) {
    throw new Error(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

const MAX_SETTINGS_BYTES = 16 * 1024 * 1024;

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
    content = readBoundedFile(path, MAX_SETTINGS_BYTES).toString();
  } catch (error) {
    return failed(error instanceof Error ? `cannot be read: ${error.message}` : 'cannot be read');
  }
  const yaml = loadYaml();
  const document = yaml.parseDocument(content, { merge: true });
  const [error] = document.errors;
  if (error !== undefined) return failed(`is not valid YAML: ${firstLine(error.message)}`);
  const placeAt = (offset: number) => {
    const before = content.slice(0, offset).split('\n');
    return `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
  };
  const anchors = new Map<string, unknown>();
  let wrongAlias: string | undefined;
  yaml.visit(document, (_, node, parents) => {
    if (!yaml.isAlias(node)) {
      if (yaml.isNode(node) && node.anchor !== undefined) anchors.set(node.anchor, node);
      return undefined;
    }
    const target = anchors.get(node.source);
    if (target !== undefined && !parents.some((parent) => parent === target)) return undefined;
    const why = target === undefined ? 'names no earlier anchor' : 'is inside the value that it repeats';
    wrongAlias = `the alias at ${placeAt(node.range?.[0] ?? 0)} ${why}`;
    return yaml.visit.BREAK;
  });
  if (wrongAlias !== undefined) return failed(wrongAlias);
  let settings: unknown;
  try {
    settings = document.toJS() ?? {};
  } catch (error) {
    return failed(`cannot be used: ${firstLine((error as Error).message)}`);
  }
  if (!isMapping(settings)) return failed('must hold a mapping of settings');
  const placeOf = (of: readonly string[], text: string) => {
    const node: unknown = document.getIn(of, true);
    const [begin = 0] = yaml.isNode(node) ? (node.range ?? []) : [];
    return placeAt(Math.max(content.indexOf(text, begin), begin));
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

const MAX_SECRET_BYTES = 64 * 1024;

/** The content of a file that holds one secret, without a final line feed. @throws Error with the reason; the content is not in it */
export function readSecretFile(path: string): string {
  let bytes: Buffer;
  try {
    bytes = readBoundedFile(path, MAX_SECRET_BYTES);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new Error(code === 'ENOENT' ? `${path} does not exist` : `${path} cannot be read: ${message}`);
  }
  const content = textOf(bytes, path).replace(/\r?\n$/, '');
  if (content === '') throw new Error(`${path} is empty`);
  return content;
}

function textOf(bytes: Buffer, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${path} is not UTF-8 text`);
  }
}

export interface SecretVariables {
  readonly variables: Environment;
  /** By the name of a variable: the variable `X_FILE` from which it has its value. */
  readonly fileVariables: ReadonlyMap<string, string>;
  readonly problems: readonly Problem[];
}

/** Adds each secret variable `X` whose value is in the file that `X_FILE` names. */
export function readSecretVariables(
  given: Environment,
  cwd: string,
  isSecret: (variable: string) => boolean,
): SecretVariables {
  const variables = { ...given };
  const fileVariables = new Map<string, string>();
  const problems: Problem[] = [];
  for (const [fileVariable, path] of Object.entries(given)) {
    const variable = fileVariable.replace(/_FILE$/, '');
    if (variable === fileVariable || !path || !isSecret(variable)) continue;
    try {
      if (given[variable]) throw new Error(`${variable} is set as well; set one of the two`);
      variables[variable] = readSecretFile(resolve(cwd, path));
      fileVariables.set(variable, fileVariable);
    } catch (error) {
      const message = `${fileVariable}: ${error instanceof Error ? error.message : String(error)}`;
      problems.push({ path: '', variable: fileVariable, source: 'environment', message });
    }
  }
  return { variables, fileVariables, problems };
}

/**
 * `${VAR}`, `${env:VAR}`, `${VAR:-default}` and `${file:path}` inside the strings of a parsed YAML file; `$${` stands for a
 * literal `${`.
 */
export interface MissingVariable {
  readonly path: readonly string[];
  readonly variable: string;
}

export interface UnknownReference {
  readonly path: readonly string[];
  /** As it is written; it may be a secret. */
  readonly text: string;
  /** Why its file cannot be used; undefined for an unknown form. */
  readonly why?: string;
}

interface ExpandedValue {
  readonly value: unknown;
  /** References to variables that are not set and have no default. They were replaced by empty text. */
  readonly missing: readonly MissingVariable[];
  /** Places of a `${` that begins no reference, or names no usable file. It was left as it is. */
  readonly unknown: readonly UnknownReference[];
}

const reference =
  /\$\$\{|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}\\]|\\.)*))?\}|\$\{file:([^}]+)\}|\$\{[^}]*\}?/g;

/**
 * @param keepsTypes returns for a path whether a value that is one single reference gets the type of its content
 *   (`4096` a number, `true` a boolean); elsewhere a reference yields text, and that of a file always
 * @param readFile the content of a file that the value at this path refers to. May throw an Error with the reason why not
 */
export function expandVariables(
  value: unknown,
  env: Readonly<Record<string, string | undefined>>,
  keepsTypes: (path: readonly string[]) => boolean = () => false,
  readFile?: (file: string, path: readonly string[]) => string,
): ExpandedValue {
  const missing: MissingVariable[] = [];
  const unknown: UnknownReference[] = [];

  const expandText = (text: string, path: readonly string[]): unknown => {
    let hasFile = false;
    const expand = (match: string, variable?: string, fallback?: string, file?: string): string => {
      if (match.startsWith('$$')) return match.slice(1);
      if (file !== undefined && readFile !== undefined) {
        hasFile = true;
        try {
          return readFile(file, path);
        } catch (error) {
          unknown.push({ path, text: match, why: error instanceof Error ? error.message : String(error) });
          return match;
        }
      }
      if (variable === undefined) {
        unknown.push({ path, text: match });
        return match;
      }
      const found = env[variable];
      if (found !== undefined && found !== '') return found;
      if (fallback === undefined && found === undefined) missing.push({ path, variable });
      return fallback?.replace(/\\(.)/g, '$1') ?? '';
    };
    const expanded = text.replace(reference, expand);
    const isReference = !hasFile && text.startsWith('${') && text.replace(reference, '') === '';
    return isReference && keepsTypes(path) ? scalarOf(expanded) : expanded;
  };

  const visit = (node: unknown, path: readonly string[]): unknown => {
    if (typeof node === 'string') return expandText(node, path);
    if (Array.isArray(node)) return node.map((entry, index) => visit(entry, [...path, String(index)]));
    if (typeof node !== 'object' || node === null) return node;
    return Object.fromEntries(Object.entries(node).map(([key, entry]) => [key, visit(entry, [...path, key])]));
  };

  return { value: visit(value, []), missing, unknown };
}

/** A text becomes a number only when the number prints as the same text: `007` and digits past 2^53 stay text. */
function scalarOf(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return text !== '' && String(Number(text)) === text ? Number(text) : text;
}
