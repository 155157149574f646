/** Check digits. All functions take digits only. */

/** ISO/IEC 7812-1, annex B. */
export function isLuhnValid(digits: string): boolean {
  let sum = 0;
  for (let at = 0; at < digits.length; at += 1) {
    const digit = Number(digits[digits.length - 1 - at]);
    const weighted = at % 2 === 1 ? digit * 2 : digit;
    sum += weighted > 9 ? weighted - 9 : weighted;
  }
  return sum % 10 === 0;
}

/** The sum of each digit times its weight. */
export function weightedSum(digits: string, weights: readonly number[]): number {
  return weights.reduce((sum, weight, at) => sum + weight * Number(digits[at] ?? 0), 0);
}

/** The remainder of a number with any count of digits. */
export function remainder(digits: string, divisor: number): number {
  let rest = 0;
  for (const digit of digits) rest = (rest * 10 + Number(digit)) % divisor;
  return rest;
}

/** ISO/IEC 7064, MOD 11,10. */
export function isMod11And10Valid(digits: string): boolean {
  let product = 10;
  for (const digit of digits.slice(0, -1)) {
    const sum = (Number(digit) + product) % 10 || 10;
    product = (sum * 2) % 11;
  }
  return (11 - product) % 10 === Number(digits.at(-1));
}

/** Multiplication in the dihedral group of order 10. */
function dihedral(one: number, other: number): number {
  if (one < 5) return other < 5 ? (one + other) % 5 : 5 + ((one + other) % 5);
  return other < 5 ? 5 + ((one - other + 5) % 5) : (one - other + 5) % 5;
}

const verhoeffPermutation = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];

/** J. Verhoeff, Error Detecting Decimal Codes (1969). */
export function isVerhoeffValid(digits: string): boolean {
  let check = 0;
  for (let at = 0; at < digits.length; at += 1) {
    let digit = Number(digits[digits.length - 1 - at]);
    for (let times = at % 8; times > 0; times -= 1) digit = verhoeffPermutation[digit] ?? 0;
    check = dihedral(check, digit);
  }
  return check === 0;
}

/** Whether month and day exist in the year. */
export function isDate(year: number, month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}
