/** International bank account numbers (ISO 13616): the country's length and the MOD 97-10 check. */
import { remainder } from './check-digits.ts';
import { allOrNothing, anyDigit, type Recogniser } from './recogniser.ts';

export const iban: Recogniser = {
  entity: 'IBAN',
  label: 'Bank account numbers (IBAN)',
  byDefault: true,
  longest: 56,
  candidates:
    /(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:(?:(?:[ \t]{1,2}|\n)[A-Za-z0-9]{4}){2,7}(?:(?:[ \t]{1,2}|\n)[A-Za-z0-9]{1,3}(?![A-Za-z0-9]))?|(?:-[A-Za-z0-9]{4}){2,7}(?:-[A-Za-z0-9]{1,3}(?![A-Za-z0-9]))?|[A-Za-z0-9]{11,30})/g,
  hint: anyDigit,
  validLength(candidate) {
    const country = candidate.slice(0, 2).toUpperCase();
    const length = lengths.get(country);
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
const lengths = new Map(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ' +
    'ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 ' +
    'LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 ' +
    'PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30'
  )
    .split(' ')
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))] as const),
);

export const ibanLengths: ReadonlyMap<string, number> = lengths;
