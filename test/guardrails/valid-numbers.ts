/** Generated numbers whose check digits are valid: computed by trying all check digits, not by the product's formulas. */
import fc from 'fast-check';

function digits(count: number): fc.Arbitrary<string> {
  return fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: count, maxLength: count });
}

/** Luhn by its description: from the right, every second digit doubled, the digits of the products added. */
function luhnSum(number: string): number {
  return [...number]
    .reverse()
    .flatMap((digit, at) => [...String(Number(digit) * (at % 2 === 0 ? 1 : 2))])
    .reduce((sum, digit) => sum + Number(digit), 0);
}

function withLuhn(number: string): string {
  const check = [...'0123456789'].find((digit) => luhnSum(number + digit) % 10 === 0);
  return number + (check ?? '');
}

export const plainCardNumbers = fc
  .oneof(
    digits(14).map((rest) => `4${rest}`),
    fc.tuple(fc.constantFrom('51', '52', '55'), digits(13)).map((parts) => parts.join('')),
    fc.tuple(fc.constantFrom('34', '37'), digits(12)).map((parts) => parts.join('')),
    digits(11).map((rest) => `6011${rest}`),
  )
  .map(withLuhn);

/** Plain, or in groups of four. */
export const cardNumbers = fc
  .tuple(plainCardNumbers, fc.constantFrom('', ' ', '-'))
  .map(([number, separator]) => number.match(/.{1,4}/g)?.join(separator) ?? number);

const accountParts: Readonly<Record<string, number>> = { DE: 18, FR: 23, GB: 18, NL: 14, AT: 16, MT: 27, NO: 11 };

function ibanOf(country: string, account: string): string {
  const value = (text: string) => BigInt(text.replace(/[A-Z]/g, (letter) => String(letter.charCodeAt(0) - 55)));
  const check = 98n - (value(`${account}${country}00`) % 97n);
  return `${country}${String(check).padStart(2, '0')}${account}`;
}

export const plainIbans = fc.constantFrom(...Object.keys(accountParts)).chain((country) => {
  const length = accountParts[country] ?? 0;
  const letters = country === 'GB' || country === 'MT' || country === 'NL' ? 'NWBK' : '';
  return digits(length - letters.length).map((rest) => ibanOf(country, letters + rest));
});

export const ibans = fc
  .tuple(plainIbans, fc.boolean())
  .map(([number, isSpaced]) => (isSpaced ? (number.match(/.{1,4}/g)?.join(' ') ?? number) : number));

/** Published examples, one for each kind. */
export const documents: Readonly<Record<string, readonly string[]>> = {
  US_SSN: ['078-05-1120'],
  ES_DNI: ['12345678Z', 'X1234567L'],
  IT_FISCAL_CODE: ['RSSMRA85T10A562S'],
  FR_NIR: ['2 55 08 14 168 025 38', '255081416802538'],
  DE_TAX_ID: ['86095742719', '47 036 892 816'],
  PL_PESEL: ['44051401359'],
  BR_CPF: ['529.982.247-25', '52998224725'],
  IN_AADHAAR: ['2341 2341 2346'],
  SE_PERSONNUMMER: ['811218-9876', '19811218-9876'],
  FI_HETU: ['131052-308T'],
  CH_AHV: ['756.9217.0769.85'],
  BE_NATIONAL_NUMBER: ['85.07.30-033.28'],
  NL_BSN: ['111222333'],
  UK_NHS: ['943 476 5919'],
};

export const nationalIdsOfDocuments = fc.constantFrom(...Object.values(documents).flat());
