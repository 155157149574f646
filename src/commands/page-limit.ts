/** The `limit` of a list, with the refusals of OpenAI. */
import { type Refused, refuse } from '../providers/translate/refusal.ts';

export interface LimitRange {
  /** When the query has no limit. */
  readonly usual: number;
  readonly max: number;
}

/** @param given as it is in the query */
export function pageLimit(
  given: string | undefined,
  { usual, max }: LimitRange,
): { readonly ok: true; readonly limit: number } | Refused {
  if (given === undefined || given === '') return { ok: true, limit: usual };
  const limit = Number(given);
  if (!/^[+-]?\d+$/.test(given) || !Number.isSafeInteger(limit)) {
    return refuse(
      'invalid_type',
      'limit',
      `Invalid type for 'limit': expected an integer, but got '${given}' instead.`,
    );
  }
  if (limit > max) return outside('above maximum value', `<= ${max}`, limit, 'integer_above_max_value');
  if (limit < 1) return outside('below minimum value', '>= 1', limit, 'integer_below_min_value');
  return { ok: true, limit };
}

function outside(what: string, expected: string, got: number, code: string): Refused {
  return refuse(
    code,
    'limit',
    `Invalid 'limit': integer ${what}. Expected a value ${expected}, but got ${got} instead.`,
  );
}
