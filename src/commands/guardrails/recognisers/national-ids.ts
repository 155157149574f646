/** National identification numbers with check digits (or, in the United States, with excluded ranges). */
import { isDate, isLuhnValid, isMod11And10Valid, isVerhoeffValid, remainder, weightedSum } from './check-digits.ts';
import { allOrNothing, anyDigit, digitsOf, type Recogniser } from './recogniser.ts';

interface NationalId {
  readonly entity: string;
  readonly label: string;
  readonly candidates: RegExp;
  readonly longest: number;
  /** Of digits and letters in upper case, without separators. */
  readonly isValid: (id: string) => boolean;
  /** False for formats that many other numbers have, and whose check one of about ten of them passes. */
  readonly byDefault?: boolean;
}

const ids: readonly NationalId[] = [
  {
    entity: 'US_SSN',
    label: 'United States: social security number',
    candidates: /(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])/g,
    longest: 11,
    isValid: (id) => /^(?!000|666|9)\d{3}(?!00)\d{2}(?!0000)\d{4}$/.test(id),
  },
  {
    entity: 'ES_DNI',
    label: 'Spain: DNI and NIE',
    candidates: /(?<!\w)(?:\d{8}|[XYZxyz]-?\d{7})-?[A-Za-z](?!\w)/g,
    longest: 11,
    isValid: (id) => {
      const number = id.slice(0, -1).replace(/^[XYZ]/, (letter) => String('XYZ'.indexOf(letter)));
      return 'TRWAGMYFPDXBNJZSQVHLCKE'[remainder(number, 23)] === id.at(-1);
    },
  },
  {
    entity: 'IT_FISCAL_CODE',
    label: 'Italy: codice fiscale',
    candidates: /(?<!\w)[A-Za-z]{6}\d{2}[A-EHLMPR-Ta-ehlmpr-t]\d{2}[A-Za-z]\d{3}[A-Za-z](?!\w)/g,
    longest: 16,
    isValid: isFiscalCode,
  },
  {
    entity: 'FR_NIR',
    label: 'France: social security number (NIR)',
    candidates: /(?<!\w)[12] ?\d{2} ?\d{2} ?\d[\dABab] ?\d{3} ?\d{3} ?\d{2}(?!\w)/g,
    longest: 21,
    isValid: (id) => {
      const number = id.slice(0, 13).replace('2A', '19').replace('2B', '18');
      return /^\d{13}$/.test(number) && 97 - remainder(number, 97) === Number(id.slice(13));
    },
  },
  {
    entity: 'DE_TAX_ID',
    label: 'Germany: tax identification number',
    candidates: /(?<!\w)[1-9]\d ?\d{3} ?\d{3} ?\d{3}(?!\w)/g,
    longest: 14,
    isValid: (id) => isMod11And10Valid(id) && repeatsAsTaxId(id.slice(0, 10)),
  },
  {
    entity: 'PL_PESEL',
    label: 'Poland: PESEL',
    candidates: /(?<!\w)\d{11}(?!\w)/g,
    longest: 11,
    isValid: isPesel,
  },
  {
    entity: 'BR_CPF',
    label: 'Brazil: CPF',
    candidates: /(?<!\w)\d{3}(?:\.\d{3}\.\d{3}-|\d{6})\d{2}(?!\w)/g,
    longest: 14,
    isValid: isCpf,
  },
  {
    entity: 'IN_AADHAAR',
    label: 'India: Aadhaar number',
    candidates: /(?<!\w)[2-9]\d{3}(?: \d{4} \d{4}|\d{8})(?!\w)/g,
    longest: 14,
    isValid: isVerhoeffValid,
  },
  {
    entity: 'SE_PERSONNUMMER',
    label: 'Sweden: personnummer',
    candidates: /(?<!\w)(?:\d{2})?\d{6}[-+]\d{4}(?!\w)/g,
    longest: 13,
    isValid: (id) => {
      const short = id.slice(-10);
      const day = Number(short.slice(4, 6));
      const isCentury = id.length === 10 || /^(?:18|19|20)/.test(id);
      return isCentury && isLuhnValid(short) && isDate(2000, Number(short.slice(2, 4)), day > 60 ? day - 60 : day);
    },
  },
  {
    entity: 'FI_HETU',
    label: 'Finland: henkilötunnus',
    candidates: /(?<!\w)\d{6}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y](?!\w)/g,
    longest: 11,
    isValid: (id) =>
      '0123456789ABCDEFHJKLMNPRSTUVWXY'[remainder(digitsOf(id.slice(0, 6) + id.slice(-4, -1)), 31)] === id.at(-1),
  },
  {
    entity: 'CH_AHV',
    label: 'Switzerland: AHV number',
    candidates: /(?<!\w)756(?:\.\d{4}\.\d{4}\.\d{2}|\d{10})(?!\w)/g,
    longest: 16,
    isValid: (id) => weightedSum(id, [1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1]) % 10 === 0,
  },
  {
    entity: 'BE_NATIONAL_NUMBER',
    label: 'Belgium: national number',
    candidates: /(?<!\w)\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}(?!\w)/g,
    longest: 15,
    isValid: (id) => {
      const check = Number(id.slice(9));
      const number = id.slice(0, 9);
      return [number, `2${number}`].some((one) => 97 - remainder(one, 97) === check);
    },
  },
  {
    entity: 'NL_BSN',
    label: 'Netherlands: citizen service number (BSN)',
    candidates: /(?<!\w)\d{9}(?!\w)/g,
    longest: 9,
    isValid: (id) => id !== '000000000' && weightedSum(id, [9, 8, 7, 6, 5, 4, 3, 2, -1]) % 11 === 0,
    byDefault: false,
  },
  {
    entity: 'UK_NHS',
    label: 'United Kingdom: NHS number',
    candidates: /(?<!\w)\d{3}(?:[ -]\d{3}[ -]|\d{3})\d{4}(?!\w)/g,
    longest: 12,
    isValid: (id) => (11 - (weightedSum(id, [10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11)) % 11 === Number(id.at(-1)),
    byDefault: false,
  },
];

export const nationalIds: readonly Recogniser[] = ids.map(({ isValid, byDefault = true, ...id }) => ({
  ...id,
  byDefault,
  hint: anyDigit,
  validLength: allOrNothing((candidate) => isValid(separators(candidate))),
}));

/** Without separators. The Finnish signs of a century remain, since they may be letters. */
function separators(candidate: string): string {
  return candidate.replace(/[ .+-]/g, '').toUpperCase();
}

const oddValues = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];

/** Decree of the Italian Ministry of Finance, 23 December 1976. */
function isFiscalCode(code: string): boolean {
  const value = (sign: string) => (anyDigit.test(sign) ? Number(sign) : sign.charCodeAt(0) - 65);
  let sum = 0;
  for (let at = 0; at < 15; at += 1) {
    const of = value(code.charAt(at));
    sum += at % 2 === 0 ? (oddValues[of] ?? 0) : of;
  }
  return String.fromCharCode(65 + (sum % 26)) === code.at(-1);
}

/** One digit occurs twice or three times, the others once at most. */
function repeatsAsTaxId(digits: string): boolean {
  const counts = [...new Set(digits)].map((digit) => digits.split(digit).length - 1);
  const repeated = counts.filter((count) => count > 1);
  return repeated.length === 1 && (repeated[0] ?? 0) <= 3;
}

function isPesel(id: string): boolean {
  const month = Number(id.slice(2, 4)) % 20;
  const isBorn = isDate(2000, month, Number(id.slice(4, 6)));
  return isBorn && (10 - (weightedSum(id, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3]) % 10)) % 10 === Number(id.at(-1));
}

function isCpf(id: string): boolean {
  if (new Set(id).size === 1) return false;
  const check = (weights: readonly number[]) => ((weightedSum(id, weights) * 10) % 11) % 10;
  return (
    check([10, 9, 8, 7, 6, 5, 4, 3, 2]) === Number(id[9]) && check([11, 10, 9, 8, 7, 6, 5, 4, 3, 2]) === Number(id[10])
  );
}
