import { nearest } from '../config/problem.ts';
import { catalogue } from '../events/catalogue/catalogue.ts';
import { UsageError } from './command.ts';

/**
 * The `types` of an event filter for an argument: `attempt.started` that type, `attempt.` and `attempt.*` the
 * family, `att*` every known type that begins so. Undefined: all types.
 * @throws UsageError when no known type matches
 */
export function typeFilter(asked: readonly string[]): readonly string[] | undefined {
  const types = asked.flatMap((one) => typesFor(one.trim()));
  return asked.length === 0 || types.includes('*') ? undefined : types;
}

function typesFor(asked: string): readonly string[] {
  if (asked === '*') return ['*'];
  const known = [...catalogue.keys()];
  const prefix = asked.endsWith('*') ? asked.slice(0, -1) : asked;
  if (prefix.endsWith('.') && known.some((type) => type.startsWith(prefix))) return [prefix];
  const matching = asked.endsWith('*')
    ? known.filter((type) => type.startsWith(prefix))
    : known.filter((type) => type === asked);
  if (matching.length > 0) return matching;
  const near = nearest(asked, known);
  throw new UsageError(`no event type is "${asked}"${near === undefined ? '' : `; did you mean "${near}"?`}`);
}
