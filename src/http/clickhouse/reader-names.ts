/**
 * Functions in a reader's query. What is called must be allowed. A function can also be handed on by its bare name
 * (`arrayMap(file, …)`, `* APPLY file`, `WITH file AS f`), so no name of a function that is not allowed may stand
 * anywhere, whatever it is meant to be there.
 */
import { allowedFunctions } from './allowed-functions.ts';
import { isMark, type Token } from './normal-tokens.ts';
import { NotForReaders } from './not-for-readers.ts';

/** Table functions that make rows up. */
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

/** Words of the language after which a parenthesis opens something else than a call. */
const words = new Set(
  `all and any anti apply array as asc asof between by columns cross cube desc describe distinct else except exists
  explain fill filter first following from full global group having ilike in inner interpolate intersect is join last
  left like limit materialized not nulls offset on or order outer over partition paste plan pipeline preceding prewhere
  qualify range recursive replace right rollup row rows sample select semi sets settings step strict syntax table then
  to totals tree union using view when where window with`.split(/\s+/),
);

/** Called without being functions of their own. */
const ofTheLanguage = new Set(['exists', 'grouping']);

/** What may be put after the name of an aggregate function, as often as one likes. Lower case. */
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
