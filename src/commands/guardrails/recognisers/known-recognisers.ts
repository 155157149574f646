/** All recognisers. Of matches that begin at the same place, the one of the earlier recogniser counts. */
import { apiKey } from './api-key.ts';
import { cardNumber } from './card-number.ts';
import { email } from './email.ts';
import { iban } from './iban.ts';
import { nationalIds } from './national-ids.ts';
import { phone } from './phone.ts';
import type { Recogniser } from './recogniser.ts';

export const recognisers: readonly Recogniser[] = [apiKey, email, iban, cardNumber, ...nationalIds, phone];
