/** Telephone numbers: international with a valid country code (ITU-T E.164), and North American with separators. */
import { anyDigit, digitsOf, type Recogniser } from './recogniser.ts';

export const phone: Recogniser = {
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
