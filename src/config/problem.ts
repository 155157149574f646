/** Problems of the configuration, with texts that are enough to correct them without the documentation. */
import type { z } from 'zod';
import { mask, maskRefused } from './mask.ts';
import type { Origin, RawSettings, Source } from './raw-settings.ts';
import { holdsSecretsAt, isSecretAt, keysAt, maskingAt } from './schema-walk.ts';

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
    const got =
      value === undefined
        ? ', but nothing is set'
        : `, got ${isSecretAt(schema, path) || holdsSecretsAt(schema, path) ? shownSecret(value) : shown(value, maskingAt(schema, path))}`;
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
