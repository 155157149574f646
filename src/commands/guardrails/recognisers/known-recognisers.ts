/** All recognisers. Of matches that begin at the same place, the one of the earlier recogniser counts. */
import { allOrNothing, anyDigit, digitsOf, type Recogniser } from './recogniser-finder.ts';

// Check digits. All functions take digits only.

/** ISO/IEC 7812-1, annex B. */
function isLuhnValid(digits: string): boolean {
  let sum = 0;
  for (let at = 0; at < digits.length; at += 1) {
    const digit = Number(digits[digits.length - 1 - at]);
    const weighted = at % 2 === 1 ? digit * 2 : digit;
    sum += weighted > 9 ? weighted - 9 : weighted;
  }
  return sum % 10 === 0;
}

/** The sum of each digit times its weight. */
function weightedSum(digits: string, weights: readonly number[]): number {
  return weights.reduce((sum, weight, at) => sum + weight * Number(digits[at] ?? 0), 0);
}

/** The remainder of a number with any count of digits. */
function remainder(digits: string, divisor: number): number {
  let rest = 0;
  for (const digit of digits) rest = (rest * 10 + Number(digit)) % divisor;
  return rest;
}

/** ISO/IEC 7064, MOD 11,10. */
function isMod11And10Valid(digits: string): boolean {
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
function isVerhoeffValid(digits: string): boolean {
  let check = 0;
  for (let at = 0; at < digits.length; at += 1) {
    let digit = Number(digits[digits.length - 1 - at]);
    for (let times = at % 8; times > 0; times -= 1) digit = verhoeffPermutation[digit] ?? 0;
    check = dihedral(check, digit);
  }
  return check === 0;
}

/** Whether month and day exist in the year. */
function isDate(year: number, month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}

/** National identification numbers with check digits (or, in the United States, with excluded ranges). */
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

const nationalIds: readonly Recogniser[] = ids.map(({ isValid, byDefault = true, ...id }) => ({
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

/** Payment card numbers: a network's prefix and length (ISO/IEC 7812), and the Luhn check. */
const cardNumber: Recogniser = {
  entity: 'CARD_NUMBER',
  label: 'Payment card numbers',
  byDefault: true,
  longest: 104,
  candidates: /(?<![\w.])[2-6](?:[ -]?\d){11,18}(?!\d|[\p{L}\p{N}._%+'-]{0,64}@)/gu,
  // Dots, tabs, two spaces and line breaks only between the groups in which card numbers are printed: many other numbers have them.
  furtherCandidates:
    /(?<![\w.])[2-6]\d{3}(?:(?:(?:[ \t]{1,2}|[.-]|-?\n)\d{4}){2,4}(?:(?:[ \t]{1,2}|[.-]|-?\n)\d{1,3})?|(?:[ \t]{1,2}|[.-]|-?\n)\d{6}(?:[ \t]{1,2}|[.-]|-?\n)\d{4,5}|\d{4}-?\n\d{8})(?!\d|[\p{L}\p{N}._%+'-]{0,64}@)/gu,
  hint: anyDigit,
  validLength(candidate) {
    const digits = digitsOf(candidate);
    const lengths = networks.find(([prefix]) => prefix.test(digits))?.[1];
    if (lengths === undefined) return 0;
    // Other numbers may follow the card number, for example its date of expiry.
    for (const length of lengths) {
      const end = endOfDigits(candidate, length);
      if (end !== 0 && isLuhnValid(digits.slice(0, length))) return end;
    }
    return 0;
  },
};

/** After the digit with this number; 0 when there is none, or when another digit follows it directly. */
function endOfDigits(candidate: string, count: number): number {
  let seen = 0;
  for (let at = 0; at < candidate.length; at += 1) {
    if (!isDigit(candidate, at)) continue;
    seen += 1;
    if (seen === count) return isDigit(candidate, at + 1) ? 0 : at + 1;
  }
  return 0;
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0x30 && code <= 0x39;
}

/** Networks: the prefix of their numbers and the numbers' lengths, the longest first. */
const networks: readonly (readonly [RegExp, readonly number[]])[] = [
  [/^4/, [19, 16, 13]],
  [/^(?:5[1-5]|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720))/, [16]],
  [/^3[47]/, [15]],
  [/^(?:36|38|39|30[0-5])/, [19, 18, 17, 16, 14]],
  [/^35(?:2[89]|[3-8]\d)/, [19, 18, 17, 16]],
  [/^(?:6011|64[4-9]|65|62)/, [19, 18, 17, 16]],
  [/^(?:50|5[6-8]|6[037])/, [19, 18, 17, 16, 15, 14, 13, 12]],
];

// API keys with a published format: the prefix and the length identify them.

/** The formats that providers document. Open lengths end at 256 units. */
const formats: readonly string[] = [
  // OpenAI, Anthropic, OpenRouter and others
  'sk-[A-Za-z0-9_-]{20,253}',
  // this gateway
  'sk_chy_[A-Za-z0-9_-]{16,249}',
  // Stripe
  '(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,247}',
  // GitHub
  'gh[opsur]_[A-Za-z0-9]{36,252}',
  'github_pat_[A-Za-z0-9_]{22,245}',
  // GitLab
  'glpat-[A-Za-z0-9_-]{20,250}',
  // AWS
  'A(?:KIA|SIA)[A-Z2-7]{16}',
  // Google
  'AIza[A-Za-z0-9_-]{35}',
  // Slack
  'xox[abeprs]-[A-Za-z0-9-]{10,251}',
  // npm, Hugging Face, Groq, xAI, Replicate, Perplexity
  'npm_[A-Za-z0-9]{36}',
  'hf_[A-Za-z0-9]{30,64}',
  'gsk_[A-Za-z0-9]{40,64}',
  'xai-[A-Za-z0-9]{40,128}',
  'r8_[A-Za-z0-9]{37}',
  'pplx-[A-Za-z0-9]{40,64}',
  // SendGrid
  'SG\\.[A-Za-z0-9_-]{22}\\.[A-Za-z0-9_-]{43}',
  // DigitalOcean
  'do[opr]_v1_[a-f0-9]{64}',
  // Shopify
  'shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}',
];

const apiKey: Recogniser = {
  entity: 'API_KEY',
  label: 'API keys',
  byDefault: true,
  longest: 256,
  candidates: new RegExp(`(?<![A-Za-z0-9_-])(?:${formats.join('|')})`, 'g'),
  hint: /[_-]|AKIA|ASIA|AIza|SG\./,
  validLength(candidate) {
    // Words joined by hyphens are no key.
    return /\d/.test(candidate) && /[A-Za-z]/.test(candidate) ? candidate.length : 0;
  },
};

/** International bank account numbers (ISO 13616): the country's length and the MOD 97-10 check. */
const iban: Recogniser = {
  entity: 'IBAN',
  label: 'Bank account numbers (IBAN)',
  byDefault: true,
  longest: 56,
  candidates:
    /(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:(?:(?:[ \t]{1,2}|\n)[A-Za-z0-9]{4}){2,7}(?:(?:[ \t]{1,2}|\n)[A-Za-z0-9]{1,3}(?![A-Za-z0-9]))?|(?:-[A-Za-z0-9]{4}){2,7}(?:-[A-Za-z0-9]{1,3}(?![A-Za-z0-9]))?|[A-Za-z0-9]{11,30})/g,
  hint: anyDigit,
  validLength(candidate) {
    const country = candidate.slice(0, 2).toUpperCase();
    const length = ibanLengths.get(country);
    if (length === undefined) return 0;
    let end = 0;
    for (let seen = 0; seen < length; end += 1) {
      if (end === candidate.length) return 0;
      if (sign.test(candidate.charAt(end))) seen += 1;
    }
    return sign.test(candidate.charAt(end)) ? 0 : isValidIban(candidate.slice(0, end));
  },
};

const sign = /[A-Za-z0-9]/;

const isValidIban = allOrNothing((text) => {
  const compact = text.replace(/[ \t\n-]/g, '').toUpperCase();
  const moved = compact.slice(4) + compact.slice(0, 4);
  const digits = moved.replace(/[A-Z]/g, (letter) => String(letter.charCodeAt(0) - 55));
  return remainder(digits, 97) === 1;
});

/** The IBAN registry's length for each country. */
const ibanLengths = new Map(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ' +
    'ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 ' +
    'LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 ' +
    'PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30'
  )
    .split(' ')
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))] as const),
);

/** E-mail addresses: RFC 5321 lengths; the last label of the domain consists of letters. */
const email: Recogniser = {
  entity: 'EMAIL',
  label: 'E-mail addresses',
  byDefault: true,
  longest: 640,
  candidates: /(?<![\p{L}\p{N}._%+'-])[\p{L}\p{N}._%+'-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}[\p{L}\p{N}-]{1,63}/gu,
  hint: /@/,
  validLength(candidate) {
    const at = candidate.indexOf('@');
    const local = candidate.slice(0, at);
    if (local.endsWith('.') || local.includes('..')) return 0;
    // A sentence may go on behind the address: `jane@example.com.Then`. Labels are removed until a valid one is last.
    for (let end = candidate.length; end > at; end = candidate.lastIndexOf('.', end - 1)) {
      const labels = candidate.slice(at + 1, end).split('.');
      if (labels.length < 2) return 0;
      const isValid = labels.every((label) => !label.startsWith('-') && !label.endsWith('-'));
      if (isValid && /^\p{L}{2,24}$/u.test(labels.at(-1) ?? '')) return Math.min(end, 320);
    }
    return 0;
  },
};

/** Telephone numbers: international with a valid country code (ITU-T E.164), and North American with separators. */
const phone: Recogniser = {
  entity: 'PHONE',
  label: 'Telephone numbers',
  byDefault: true,
  longest: 140,
  candidates:
    /(?<![\w+])(?:\+[1-9](?:(?:(?:[ \t]{1,2}|[.-]|\n(?=\d{3}))?\(?|\)(?:[ \t]{1,2}|[.-])?)\d){6,14}(?!\d|[\p{L}\p{N}._%+'-]{0,64}@)|(?<!\d[.-])(?:\([2-9]\d{2}\)[ \t]{0,2}|[2-9]\d{2}(?:[ \t]{1,2}|[.-]))[2-9]\d{2}(?:[ \t]{1,2}|[.-])\d{4}(?![\w]|[.-]\d))/gu,
  hint: anyDigit,
  validLength(candidate) {
    const digits = digitsOf(candidate);
    if (!candidate.startsWith('+')) return candidate.length;
    const isKnown = countryCodes.test(digits) && digits.length >= 8;
    const isNorthAmerican = digits.startsWith('1');
    return isKnown && (!isNorthAmerican || /^1[2-9]\d{2}[2-9]\d{6}$/.test(digits)) ? candidate.length : 0;
  },
};

/** Country codes in use (ITU-T E.164, list of assigned country codes). */
const countryCodes =
  /^(?:1|7|2(?:0|7|[1-6]\d|9[0-9])|3(?:[0-469]|[578]\d)|4(?:[013-9]|2[013])|5(?:[1-8]|0\d|9\d)|6(?:[0-6]|[789]\d)|8(?:[1246]|[08]\d|5[02356])|9(?:[0-58]|6[0-8]|7[0-79]|9[2-68]))/;

export const recognisers: readonly Recogniser[] = [apiKey, email, iban, cardNumber, ...nationalIds, phone];
