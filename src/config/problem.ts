/** Problems of the configuration, with texts that are enough to correct them without the documentation. */
import type { z } from 'zod';
import { mask, maskRefused } from './mask.ts';
import { factsAt, isSecretAt, keysAt } from './setting.ts';

export interface Problem {
  /** Place in chancery.yaml, for example `server.port`; empty for the file itself. */
  readonly path: string;
  /** The environment variable or flag of the value, or the one that would correct the problem. */
  readonly variable?: string;
  readonly source: Source;
  /** Never holds a secret. */
  readonly message: string;
}

/** One line for a person: `server.port (PORT): expected …, got "abc"`. */
export function describeProblem(problem: Problem): string {
  const place =
    problem.path === '' ? '' : problem.path + (problem.variable === undefined ? '' : ` (${problem.variable})`);
  return place === '' ? problem.message : `${place}: ${problem.message}`;
}

/** Converts the validator's issues to problems; a mapping with two unknown keys gives two. */
export function problemsOf(error: z.ZodError, raw: RawSettings, schema: z.ZodType): Problem[] {
  return error.issues.flatMap((issue) => {
    const path = issue.path.map(String);
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => unknownKey([...path, key], raw.origin([...path, key]), keysAt(schema, path)));
    }
    if (issue.code === 'invalid_key') {
      const message = 'a provider name is letters, digits, ".", "_" and "-", and starts with a letter or digit';
      return [{ ...raw.origin(path), path: path.join('.'), message }];
    }
    const value = raw.get(path);
    const { holdsSecrets, masking } = factsAt(schema, path) ?? {};
    const isHidden = isSecretAt(schema, path) || holdsSecrets === true || raw.hasFileContent(value);
    const got =
      value === undefined ? ', but nothing is set' : `, got ${isHidden ? shownSecret(value) : shown(value, masking)}`;
    return [{ ...raw.origin(path), path: path.join('.'), message: issue.message + got }];
  });
}

function shownSecret(value: unknown): string {
  return typeof value === 'string' ? mask(value) : '****';
}

function shown(value: unknown, masking?: (value: string) => string): string {
  if (masking !== undefined && typeof value === 'object') return '****';
  const masked = masking !== undefined && typeof value === 'string' ? masking(value) : maskRefused(value);
  return (JSON.stringify(masked) ?? String(masked)).slice(0, 200);
}

function unknownKey(path: readonly string[], origin: Origin, known: readonly string[]): Problem {
  const key = path.at(-1) ?? '';
  const near = nearest(key, known);
  const hint = near === undefined ? `known here: ${known.join(', ')}` : `did you mean "${near}"?`;
  return { ...origin, path: path.join('.'), message: `unknown key "${key}"; ${hint}` };
}

/** The candidate with the smallest edit distance, if it is close enough for a suggestion. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const [best] = candidates
    .map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate) }))
    .sort((a, b) => a.distance - b.distance);
  return best !== undefined && best.distance <= Math.max(2, word.length / 3) ? best.candidate : undefined;
}

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** The settings of every source, before validation. */
export type Source = 'flag' | 'environment' | '.env' | 'file' | 'default';

/** The origin of a value: `variable` is the environment variable, the flag, or absent for the file. */
export interface Origin {
  readonly source: Source;
  readonly variable?: string;
}

type RawRow = Readonly<Record<string, unknown>>;

/** A nested mapping with the origin of its values. */
export class RawSettings {
  readonly tree: Record<string, unknown>;
  readonly #origins = new Map<string, Origin>();
  readonly #fileVariables: ReadonlyMap<string, string>;
  readonly #fileContents: readonly string[];

  /**
   * @param fileVariables by the name of a variable, the variable that names the file with its value
   * @param fileContents of the files to which values in chancery.yaml refer: secrets, wherever they are
   */
  constructor(
    tree: Record<string, unknown>,
    fileVariables: ReadonlyMap<string, string> = new Map(),
    fileContents: readonly string[] = [],
  ) {
    this.tree = tree;
    this.#fileVariables = fileVariables;
    this.#fileContents = fileContents;
  }

  /** Overrides the value at `path`; does nothing when a parent is no mapping (which is an error). */
  set(path: readonly string[], value: unknown, origin: Origin): void {
    const parent = this.#parent(path);
    const key = path.at(-1);
    if (parent === undefined || key === undefined) return;
    parent[key] = value;
    const variable = this.#fileVariables.get(origin.variable ?? '') ?? origin.variable;
    this.#origins.set(path.join('.'), variable === undefined ? origin : { ...origin, variable });
  }

  delete(path: readonly string[]): void {
    const parent = this.#parent(path);
    const key = path.at(-1);
    if (parent !== undefined && key !== undefined) delete parent[key];
  }

  get(path: readonly string[]): unknown {
    return valueAt(this.tree, path);
  }

  /** The origin of the value at `path`, or of the nearest value around it. */
  origin(path: readonly string[]): Origin {
    for (let length = path.length; length > 0; length--) {
      const origin = this.#origins.get(path.slice(0, length).join('.'));
      if (origin !== undefined) return origin;
    }
    return this.get(path.slice(0, 1)) === undefined ? { source: 'default' } : { source: 'file' };
  }

  /** Whether the value, or a part of it, has the content of a file that chancery.yaml refers to. */
  hasFileContent(value: unknown): boolean {
    if (typeof value === 'string') return this.#fileContents.some((content) => value.includes(content));
    if (typeof value !== 'object' || value === null || this.#fileContents.length === 0) return false;
    return Object.values(value).some((member) => this.hasFileContent(member));
  }

  /** A problem with the value at `path`. @param variable that sets it, when it was not set by another one */
  problem(path: string, variable: string, message: string): Problem {
    const origin = this.origin(path.split('.'));
    return { path, variable: origin.variable ?? variable, source: origin.source, message };
  }

  /** Adds rows to those at `path`; each replaces the row with the same identity. */
  addRows(path: readonly string[], rows: readonly unknown[], idOf: (row: RawRow) => unknown, origin: Origin): void {
    const replaced = new Set(rows.map((row) => (isMapping(row) ? idOf(row) : undefined)));
    const input = this.get(path);
    const kept = (Array.isArray(input) ? input : []).filter((row) => !isMapping(row) || !replaced.has(idOf(row)));
    this.set(path, [...kept, ...rows], origin);
  }

  #parent(path: readonly string[]): Record<string, unknown> | undefined {
    let node: unknown = this.tree;
    for (const key of path.slice(0, -1)) {
      if (!isMapping(node)) return undefined;
      node[key] ??= {};
      node = node[key];
    }
    return isMapping(node) ? node : undefined;
  }
}

export function valueAt(tree: unknown, path: readonly string[]): unknown {
  let node = tree;
  for (const key of path) node = isMapping(node) || Array.isArray(node) ? Reflect.get(node, key) : undefined;
  return node;
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A copy without nulls and empty text: both mean "not set", except where an empty value has its own meaning. */
export function withoutEmpty(node: unknown, keepsEmpty: (path: readonly string[]) => boolean): unknown {
  const visit = (value: unknown, path: readonly string[]): unknown => {
    if (Array.isArray(value)) return value.filter((entry) => entry !== null && entry !== '');
    if (!isMapping(value)) return value;
    const kept = Object.entries(value)
      .map(([key, entry]) => [key, visit(entry, [...path, key])] as const)
      .filter(([key, entry]) => entry !== null && (entry !== '' || keepsEmpty([...path, key])));
    return Object.fromEntries(kept);
  };
  return visit(node, []);
}
