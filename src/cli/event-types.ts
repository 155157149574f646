import { nearest } from '../config/problem.ts';
import { catalogue } from '../events/catalogue/catalogue.ts';
import { UsageError } from './command.ts';

/**
 * The `types` of an event filter for an argument: `attempt.started` that type, `attempt.` and `attempt.*` the
 * family, `att*` every known type that begins so. Undefined: all types.
 * @throws UsageError when no known type matches
 */
export function typeFilter(patterns: readonly string[]): readonly string[] | undefined {
  const types = patterns.flatMap((one) => typesFor(one.trim()));
  return patterns.length === 0 || types.includes('*') ? undefined : types;
}

function typesFor(pattern: string): readonly string[] {
  if (pattern === '*') return ['*'];
  const known = [...catalogue.keys()];
  const prefix = pattern.endsWith('*') ? pattern.slice(0, -1) : pattern;
  if (prefix.endsWith('.') && known.some((type) => type.startsWith(prefix))) return [prefix];
  const matching = pattern.endsWith('*')
    ? known.filter((type) => type.startsWith(prefix))
    : known.filter((type) => type === pattern);
  if (matching.length > 0) return matching;
  const near = nearest(pattern, known);
  throw new UsageError(`no event type is "${pattern}"${near === undefined ? '' : `; did you mean "${near}"?`}`);
}
