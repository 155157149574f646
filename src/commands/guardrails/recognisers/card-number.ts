/** Payment card numbers: a network's prefix and length (ISO/IEC 7812), and the Luhn check. */
import { isLuhnValid } from './check-digits.ts';
import { anyDigit, digitsOf, type Recogniser } from './recogniser.ts';

export const cardNumber: Recogniser = {
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
