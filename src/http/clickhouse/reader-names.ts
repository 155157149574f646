/**
 * Functions in a reader's query. Every called function must be allowed. A function can also be passed by its bare name
 * (`arrayMap(file, …)`, `* APPLY file`, `WITH file AS f`), so names of functions that are not allowed are refused
 * anywhere, whatever they mean there.
 */
import { allowedFunctions } from './allowed-functions.ts';
import { isMark, type Token } from './normal-tokens.ts';
import { NotForReaders } from './not-for-readers.ts';

/** Table functions that generate rows. */
const tableFunctions = new Set([
  'generate_series',
  'generaterandom',
  'generateseries',
  'null',
  'numbers',
  'numbers_mt',
  'primes',
  'sqlstandardvalues',
  'values',
  'view',
  'zeros',
  'zeros_mt',
]);

/** Keywords before a parenthesis that is not a call. */
const words = new Set(
  `all and any anti apply array as asc asof between by columns cross cube desc describe distinct else except exists
  explain fill filter first following from full global group having ilike in inner interpolate intersect is join last
  left like limit materialized not nulls offset on or order outer over partition paste plan pipeline preceding prewhere
  qualify range recursive replace right rollup row rows sample select semi sets settings step strict syntax table then
  to totals tree union using view when where window with`.split(/\s+/),
);

/** Called like functions, but part of the language. */
const ofTheLanguage = new Set(['exists', 'grouping']);

/** Suffixes of aggregate functions, which can be repeated. Lower case. */
const combinators = [
  'argmax',
  'argmin',
  'array',
  'distinct',
  'foreach',
  'if',
  'map',
  'merge',
  'null',
  'ordefault',
  'ornull',
  'resample',
  'simplestate',
  'state',
  'tuple',
];

/** @throws NotForReaders */
export function checkNames(tokens: readonly Token[], engineFunctions: ReadonlySet<string>): void {
  for (const [at, token] of tokens.entries()) {
    if (token.kind !== 'name') continue;
    const { name, text, quoted } = token;
    if (engineFunctions.has(name) && !allowedFunctions.has(name)) {
      throw new NotForReaders(`${text} is not among the functions for readers, and their names are not either`);
    }
    if (!isMark(tokens[at + 1], '(')) continue;
    if (isCallable(name) || tableFunctions.has(name) || (!quoted && words.has(name))) continue;
    throw new NotForReaders(`${text}(…) is not among the functions for readers`);
  }
}

const LONGEST_NAME = 128;

/** @param name in lower case */
function isCallable(name: string): boolean {
  if (name.length > LONGEST_NAME) return false;
  if (allowedFunctions.has(name) || ofTheLanguage.has(name)) return true;
  return combinators.some((suffix) => name.endsWith(suffix) && isCallable(name.slice(0, -suffix.length)));
}
