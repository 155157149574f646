/** What the people of the seeded history write, and what they get. */

export const questions = [
  'Summarise the incident report of the night shift in three sentences.',
  'Which invoices of October are still open, and since when?',
  'Translate the release notes to German and keep the product names.',
  'Warum schlägt die Anmeldung mit dem neuen Zertifikat fehl?',
  'Explique la différence entre un index couvrant et un index partiel.',
  'Write a SQL query that returns the ten slowest requests per day.',
  'Draft a polite answer to a customer whose parcel is two weeks late.',
  'この契約書の解約条項を要約してください。',
  'Refactor this function so that it does not read the whole file into memory.',
  'List the risks of moving the archive to another region.',
  'What changed between the two versions of the privacy policy?',
  'Compare the offers of the three suppliers in a table.',
  'Find contradictions in the minutes of the last two meetings.',
  'Explain the error "certificate has expired" to somebody who is not technical.',
  'Suggest five names for an internal tool that schedules meeting rooms.',
  'Прочитай отзыв клиента и назови главную жалобу.',
  'Estimate how long the migration takes with 40 TB and 2 GB/s.',
  'Check this regular expression for catastrophic backtracking: ^(a+)+$',
  'اكتب ملخصا قصيرا لهذا التقرير.',
  'Turn these notes into an agenda with times.',
] as const;

/** Equal questions, which the response cache answers. */
export const frequentQuestions = [
  'What are your opening hours?',
  'How do I reset my password?',
  'Where can I download my invoice?',
  'Which countries do you deliver to?',
] as const;

/** A support conversation; the assistant's turns are the provider's answers. */
export const conversation = [
  ['My order 20418 arrived without the power supply.', 'I am sorry. Please send me the serial number of the device.'],
  ['It is KX-20931-B.', 'Thank you. A power supply leaves our warehouse today and arrives on Thursday.'],
  ['Can it be delivered to my office instead?', 'Yes. Please send me the address of your office.'],
  ['Harbour Street 12, third floor.', 'Done. The parcel goes to Harbour Street 12, third floor, on Thursday.'],
] as const;

export const system = 'You are the assistant of a furniture shop. Answer briefly and name your sources.';

/** Texts with personal data, which the guardrail of the support desk hides. */
export const personal = [
  'Please call Mr Ortega back at +49 30 901820 or write to luis.ortega@example.com.',
  'The refund goes to DE89 3704 0044 0532 0130 00, receipt to hanna.k@example.org.',
  'My card 4111 1111 1111 1111 was charged twice; my mail is sam.wu@example.net.',
  'Contact the tenant at rosa.lind@example.com about the leak on the second floor.',
] as const;

export const tool = {
  name: 'get_weather',
  description: 'The weather in a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
    required: ['city', 'unit'],
    additionalProperties: false,
  },
} as const;

/** A picture of 8 × 8 pixels, half blue and half yellow. */
export const picture =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAFklEQVR42mNgCN+OHVFR4v917IiKEgBLmVyB5j/N' +
  '9QAAAABJRU5ErkJggg==';
